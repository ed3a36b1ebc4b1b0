import jakarta.persistence.CascadeType;
import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.EnumType;
import jakarta.persistence.Enumerated;
import jakarta.persistence.FetchType;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Index;
import jakarta.persistence.LockModeType;
import jakarta.persistence.ManyToMany;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.OneToMany;
import jakarta.persistence.OptimisticLockException;
import jakarta.persistence.Table;
import jakarta.persistence.Version;
import java.math.BigDecimal;
import java.time.Duration;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.hibernate.SessionFactory;
import org.hibernate.annotations.JdbcTypeCode;
import org.hibernate.cfg.Configuration;
import org.hibernate.exception.ConstraintViolationException;
import org.hibernate.tool.schema.spi.SchemaManagementException;
import org.hibernate.type.SqlTypes;

/**
 * Hibernate: a schema that is created, validated, updated to newer entities and validated again;
 * queries with joins, versions, locks, batches: `CheckHibernate PORT DATABASE`, on an empty database.
 */
public final class CheckHibernate {
    public enum Kind { SMALL, LARGE }

    /** A customer as it was at first. */
    @Entity(name = "OldCustomer")
    @Table(name = "customer", indexes = @Index(name = "customer_name", columnList = "name"))
    public static class OldCustomer {
        @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) Long id;
        @Column(nullable = false, unique = true, length = 80) String name;
    }

    @Entity(name = "Customer")
    @Table(name = "customer", indexes = {
        @Index(name = "customer_name", columnList = "name"),
        @Index(name = "customer_born", columnList = "born desc")
    })
    public static class Customer {
        @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) Long id;
        @Column(nullable = false, unique = true, length = 80) String name;
        @Version Integer version;
        LocalDate born;
        @JdbcTypeCode(SqlTypes.JSON) Map<String, Object> data;
        @OneToMany(mappedBy = "customer", cascade = CascadeType.ALL, orphanRemoval = true)
        List<Purchase> purchases = new ArrayList<>();
        @ManyToMany(cascade = CascadeType.PERSIST) Set<Label> labels = new HashSet<>();
    }

    @Entity(name = "Purchase")
    @Table(name = "purchase")
    public static class Purchase {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        @ManyToOne(optional = false, fetch = FetchType.LAZY) Customer customer;
        @Enumerated(EnumType.STRING) Kind kind;
        @JdbcTypeCode(SqlTypes.NAMED_ENUM) Kind named;
        @Column(precision = 12, scale = 2) BigDecimal price;
        OffsetDateTime at;
        UUID mark;
        byte[] picture;
        Duration time;
        @Column(columnDefinition = "text") String note;
        String[] tags;
        boolean paid;
        double weight;
    }

    @Entity(name = "Label")
    @Table(name = "label")
    public static class Label {
        @Id String name;

        Label() {}

        Label(String name) {
            this.name = name;
        }
    }

    private static Check check;

    private static SessionFactory factory(String action, Class<?>... entities) {
        // For enums a schema that is made anew gets casts, which are refused here by name; Hibernate
        // warns and goes on, as it does unless it is told to halt.
        boolean halts = !action.equals("create-drop");
        Configuration own = new Configuration()
                .setProperty("hibernate.connection.url", check.url)
                .setProperty("hibernate.connection.username", "rightlink")
                .setProperty("hibernate.hbm2ddl.auto", action)
                .setProperty("hibernate.hbm2ddl.halt_on_error", String.valueOf(halts))
                .setProperty("hibernate.jdbc.batch_size", "20")
                .setProperty("hibernate.order_inserts", "true")
                .setProperty("hibernate.jdbc.time_zone", "UTC");
        for (Class<?> entity : entities) {
            own.addAnnotatedClass(entity);
        }
        return own.buildSessionFactory();
    }

    private static SessionFactory now(String action) {
        return factory(action, Customer.class, Purchase.class, Label.class);
    }

    /** A schema of older entities becomes one of newer ones, over its rows. */
    private static void schema() throws Exception {
        try (SessionFactory old = factory("create", OldCustomer.class)) {
            old.inTransaction(session -> {
                OldCustomer one = new OldCustomer();
                one.name = "Old";
                session.persist(one);
            });
        }
        factory("validate", OldCustomer.class).close();
        // Columns and tables are missing still.
        Check.fails(SchemaManagementException.class, () -> now("validate").close());
        now("update").close();
        List<String> made = check.rows("select table_name, column_name, data_type, is_nullable"
                + " from information_schema.columns where table_schema = 'public' order by 1, 2");
        now("validate").close();
        // There is nothing more to do.
        now("update").close();
        Check.equal(check.rows("select table_name, column_name, data_type, is_nullable"
                + " from information_schema.columns where table_schema = 'public' order by 1, 2"), made);
        Check.that(made.contains("purchase|price|numeric|YES"), made.toString());
        Check.that(made.contains("customer|data|jsonb|YES"), made.toString());
        Check.that(made.contains("purchase|named|USER-DEFINED|YES"), made.toString());
        Check.equal(check.rows("select name, version from customer"), "[Old|null]");
        Check.equal(check.rows("select count(*) from pg_indexes where indexname = 'customer_born'"), "[1]");
        check.run("delete from customer");
    }

    private static void rows(SessionFactory factory) {
        factory.inTransaction(session -> {
            List<Label> labels = List.of(new Label("red"), new Label("big"));
            for (int n = 0; n < 30; n++) {
                Customer customer = new Customer();
                customer.name = "Customer " + n;
                customer.born = LocalDate.of(2000, 1, 1).plusDays(n);
                customer.data = Map.of("n", n, "list", List.of(n, n + 1));
                customer.labels.add(labels.get(n % 2));
                for (int m = 0; m < 3; m++) {
                    Purchase purchase = new Purchase();
                    purchase.customer = customer;
                    purchase.kind = purchase.named = m == 0 ? Kind.SMALL : Kind.LARGE;
                    purchase.price = BigDecimal.valueOf(n * 100L + m, 2);
                    purchase.at = OffsetDateTime.parse("2024-05-06T07:08:09.123456Z");
                    purchase.mark = new UUID(n, m);
                    purchase.picture = new byte[] {0, (byte) n};
                    purchase.time = Duration.ofSeconds(n, 5000);
                    purchase.tags = new String[] {"a", "b" + m};
                    customer.purchases.add(purchase);
                }
                session.persist(customer);
            }
        });
        factory.inTransaction(session -> {
            Customer one = session.createSelectionQuery(
                    "from Customer c left join fetch c.purchases where c.name = :name", Customer.class)
                    .setParameter("name", "Customer 7").getSingleResult();
            Check.equal(one.purchases.size(), 3);
            Purchase first = one.purchases.get(0);
            Check.equal(first.price + " " + first.mark + " " + first.named + " " + first.tags[1],
                    "7.00 " + new UUID(7, 0) + " SMALL b0");
            Check.equal(first.at.toInstant(), OffsetDateTime.parse("2024-05-06T07:08:09.123456Z").toInstant());
            Check.equal(first.time, Duration.ofSeconds(7, 5000));
            Check.equal(one.data.get("list"), List.of(7, 8));
            Check.equal(one.labels.iterator().next().name, "big");
            List<Object[]> sums = session.createSelectionQuery(
                    "select c.name, sum(p.price), count(p) from Customer c join c.purchases p"
                            + " where p.named = Kind.LARGE group by c.name"
                            + " having sum(p.price) > 50 order by sum(p.price) desc", Object[].class)
                    .setMaxResults(3).getResultList();
            Check.equal(sums.get(0)[0] + " " + sums.get(0)[1] + " " + sums.get(0)[2], "Customer 29 58.03 2");
            Check.equal(sums.size(), 3);
            List<Long> ranks = session.createSelectionQuery(
                    "select row_number() over (partition by p.customer order by p.price desc)"
                            + " from Purchase p where p.customer.born < :day", Long.class)
                    .setParameter("day", LocalDate.of(2000, 1, 11)).getResultList();
            Check.equal(ranks.stream().filter(rank -> rank == 1).count(), 10);
            Check.equal(session.createSelectionQuery("from Customer c where exists (select 1 from c.labels l"
                    + " where l.name = 'red') and lower(c.name) like 'customer 1%' order by c.born desc",
                    Customer.class).setFirstResult(1).setMaxResults(2).getResultList().get(0).name,
                    "Customer 16");
            Check.equal(session.createMutationQuery(
                    "update Purchase p set p.price = p.price + 1, p.paid = true where p.kind = :kind")
                    .setParameter("kind", Kind.SMALL).executeUpdate(), 30);
            Check.equal(session.createMutationQuery("insert into Label (name) values ('red')"
                    + " on conflict (name) do nothing").executeUpdate(), 0);
            Check.equal(session.createNativeQuery("select count(*) from customer where data ->> 'n' = '3'",
                    Long.class).getSingleResult(), 1);
        });
        factory.inTransaction(session -> {
            Customer one = session.createSelectionQuery("from Customer where name = 'Customer 1'",
                    Customer.class).getSingleResult();
            one.purchases.remove(0);
            one.name = "Renamed";
        });
        Check.equal(count(factory), 89);
        factory.inTransaction(session -> session.remove(session.createSelectionQuery(
                "from Customer where name = 'Renamed'", Customer.class).getSingleResult()));
        Check.equal(count(factory), 87);
    }

    private static long count(SessionFactory factory) {
        return factory.fromTransaction(session ->
                session.createSelectionQuery("select count(*) from Purchase", Long.class).getSingleResult());
    }

    /** Who comes second loses, keys are refused, and a transaction is taken back as a whole. */
    private static void conflicts(SessionFactory factory) {
        Check.fails(OptimisticLockException.class, () -> factory.inTransaction(first -> {
            Customer own = first.find(Customer.class, id(factory));
            factory.inTransaction(second -> second.find(Customer.class, own.id).name = "Second");
            own.name = "First";
        }));
        Check.equal(count(factory), 87);
        ConstraintViolationException error = Check.fails(ConstraintViolationException.class, () ->
                factory.inTransaction(session -> {
                    Customer twice = new Customer();
                    twice.name = "Second";
                    session.persist(twice);
                }));
        Check.equal(error.getSQLState(), "23505");
        Check.that(error.getConstraintName() != null, "it names the constraint");
        Check.fails(ConstraintViolationException.class, () -> factory.inTransaction(session ->
                session.createMutationQuery("delete from Customer where name = 'Second'").executeUpdate()));
        factory.inTransaction(session -> {
            Customer locked = session.find(Customer.class, id(factory), LockModeType.PESSIMISTIC_WRITE);
            Check.equal(factory.fromTransaction(other -> other.createNativeQuery(
                    "select count(*) from (select id from customer for update skip locked) x", Long.class)
                    .getSingleResult()), 28);
            locked.born = LocalDate.of(1999, 12, 31);
        });
    }

    private static Long id(SessionFactory factory) {
        return factory.fromTransaction(session -> session.createSelectionQuery(
                "select min(id) from Customer", Long.class).getSingleResult());
    }

    public static void main(String[] args) throws Exception {
        check = new Check(args);
        schema();
        try (SessionFactory factory = now("none")) {
            rows(factory);
            conflicts(factory);
        }
        try (SessionFactory fresh = now("create-drop")) {
            rows(fresh);
        }
        Check.equal(check.rows("select count(*) from pg_class where relnamespace = 2200"), "[0]");
        System.out.println("Hibernate: create, update, validate, queries, versions, locks");
    }
}
