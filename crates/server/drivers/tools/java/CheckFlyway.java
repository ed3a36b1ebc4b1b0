import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.Statement;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.FlywayException;
import org.flywaydb.core.api.MigrationInfo;
import org.flywaydb.core.api.output.ValidateResult;

/**
 * Flyway: versions, callbacks, repeatable migrations, a failed one and its repair, baseline, clean:
 * `CheckFlyway PORT DATABASE`, on an empty database.
 */
public final class CheckFlyway {
    private static Path folder;
    private static Check check;

    private static void migration(String name, String sql) throws Exception {
        Files.writeString(folder.resolve(name + ".sql"), sql);
    }

    private static Flyway flyway(String... schemas) {
        return Flyway.configure()
                .dataSource(check.url, "rightlink", "")
                .locations("filesystem:" + folder)
                .schemas(schemas)
                .cleanDisabled(false)
                .placeholders(java.util.Map.of("least", "10"))
                .load();
    }

    private static void forward() throws Exception {
        migration("V1__shop", """
                create table customer (id serial primary key, name text not null unique);
                create table purchase (
                  id bigint generated always as identity primary key,
                  customer_id int not null references customer (id) on delete cascade,
                  amount numeric(10, 2) check (amount >= 0), at timestamptz default now());
                insert into customer (name) select 'name ' || n from generate_series(1, 50) n;
                insert into purchase (customer_id, amount) select id, id from customer;
                """);
        migration("V2__columns", """
                alter table customer add column mail text, add column born date default '2000-01-01';
                alter table purchase rename column amount to price;
                create index purchase_price on purchase (price desc) where price > ${least};
                -- A comment; with a semicolon
                create function twice(n numeric) returns numeric language sql as $$ select n * 2; $$;
                do $$ begin alter table customer add column mail text;
                exception when duplicate_column then null; end $$;
                """);
        migration("R__view", """
                create or replace view total as select c.name, sum(p.price * 2) as total
                from customer c join purchase p on p.customer_id = c.id group by c.name;
                """);
        Flyway own = flyway("shop");
        Check.equal(own.info().pending().length, 3);
        Check.equal(own.migrate().migrationsExecuted, 3);
        Check.equal(own.info().current().getVersion(), "2");
        Check.equal(own.migrate().migrationsExecuted, 0);
        ValidateResult valid = own.validateWithResult();
        Check.that(valid.validationSuccessful, "it is valid");
        Check.equal(check.rows("select total from shop.total where name = 'name 7'"), "[14.00]");
        Check.equal(check.rows("select shop.twice(3.5)"), "[7.0]");
        Check.equal(check.rows("select count(*) from shop.flyway_schema_history where success"), "[4]");
        migration("R__view", """
                drop view total;
                create view total as select c.name, c.born, sum(p.price * 2) as total
                from customer c join purchase p on p.customer_id = c.id group by c.id;
                """);
        Check.equal(own.migrate().migrationsExecuted, 1);
        Check.equal(check.rows("select born from shop.total where name = 'name 7'"), "[2000-01-01]");
    }

    private static void failure() throws Exception {
        migration("V3__broken", "create table half (a int); insert into nothing values (1);");
        Flyway own = flyway("shop");
        Check.fails(FlywayException.class, own::migrate);
        // Definitions are undone with the transaction.
        Check.equal(check.rows("select to_regclass('shop.half')"), "[null]");
        migration("V3__broken", "create table half (a int);");
        Check.equal(own.migrate().migrationsExecuted, 1);
        migration("V1__shop", "select 1;");
        Check.fails(FlywayException.class, own::validate);
        own.repair();
        own.validate();
        for (MigrationInfo one : own.info().all()) {
            Check.that(one.getState().isApplied(), one.getScript());
        }
    }

    private static void rows() throws Exception {
        try (Connection own = check.connect(); Statement statement = own.createStatement()) {
            own.setAutoCommit(false);
            statement.execute("set search_path = shop");
            statement.executeUpdate("delete from customer where id <= 10");
            try (ResultSet found = statement.executeQuery(
                    "select c.id, p.price from customer c left join purchase p on p.customer_id = c.id"
                            + " where p.price > 45 order by 1")) {
                int count = 0;
                while (found.next()) {
                    Check.equal(found.getBigDecimal(2).intValue(), found.getInt(1));
                    count++;
                }
                Check.equal(count, 5);
            }
            own.rollback();
        }
        Check.equal(check.rows("select count(*) from shop.purchase"), "[50]");
    }

    /** A schema that was there before has to be taken as it is. */
    private static void baseline() throws Exception {
        check.run("create schema old; create table old.there (a int)");
        Flyway own = flyway("old");
        Check.fails(FlywayException.class, own::migrate);
        Flyway based = Flyway.configure().configuration(own.getConfiguration())
                .baselineVersion("2").ignoreMigrationPatterns("*:missing").load();
        based.baseline();
        Files.delete(folder.resolve("R__view.sql"));
        Check.equal(based.migrate().migrationsExecuted, 1);
        Check.equal(check.rows("select to_regclass('old.half'), to_regclass('old.customer')"),
                "[old.half|null]");
        based.clean();
    }

    public static void main(String[] args) throws Exception {
        check = new Check(args);
        folder = Files.createTempDirectory("flyway");
        forward();
        failure();
        rows();
        baseline();
        flyway("shop").clean();
        Check.equal(check.rows("select count(*) from pg_class c join pg_namespace n"
                + " on n.oid = c.relnamespace where n.nspname = 'shop'"), "[0]");
        System.out.println("Flyway: versions, repeatable ones, a failure and its repair, clean");
    }
}
