// What Hibernate asks of catalogs: `Hibernate PORT DATABASE` makes, updates, validates and drops a
// schema of two entities.
import jakarta.persistence.*;
import java.util.*;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

public class Hibernate {
    public enum Kind { ONE, OTHER }

    @Entity(name = "hib_owner")
    @Table(name = "hib_owner", indexes = @Index(name = "hib_owner_name", columnList = "name"))
    public static class Owner {
        @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) Long id;
        @Column(nullable = false, unique = true, length = 80) String name;
        @OneToMany(mappedBy = "owner") List<Thing> things = new ArrayList<>();
    }

    @Entity(name = "hib_thing")
    @Table(name = "hib_thing")
    public static class Thing {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        @ManyToOne(optional = false) Owner owner;
        @Enumerated(EnumType.STRING) Kind kind;
        java.math.BigDecimal price;
        java.time.OffsetDateTime since;
        UUID mark;
        @Lob byte[] picture;
    }

    public static void main(String[] args) {
        for (String action : new String[] {"create", "update", "validate", "create-drop"}) {
            Configuration one = new Configuration()
                .addAnnotatedClass(Owner.class)
                .addAnnotatedClass(Thing.class)
                .setProperty("hibernate.connection.url", "jdbc:postgresql://127.0.0.1:" + args[0] + "/" + args[1])
                .setProperty("hibernate.connection.username", "rightlink")
                .setProperty("hibernate.hbm2ddl.auto", action);
            try (SessionFactory factory = one.buildSessionFactory()) {
                factory.inTransaction(session -> {
                    Owner owner = new Owner();
                    owner.name = action;
                    session.persist(owner);
                    session.createQuery("from hib_owner o where o.name = :name", Owner.class)
                        .setParameter("name", action).getResultList();
                });
            }
        }
    }
}
