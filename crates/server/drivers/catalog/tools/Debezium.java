// What Debezium's PostgreSQL connector asks of catalogs: `Debezium PORT DATABASE`. It takes a
// snapshot of two tables, and follows their changes for some seconds, once with a publication of
// its own and once with one for all tables; its slots are gone at the end.
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

public class Debezium {
    static void follow(String port, String database, String slot, String publications) throws Exception {
        Properties p = new Properties();
        p.setProperty("name", slot);
        p.setProperty("connector.class", "io.debezium.connector.postgresql.PostgresConnector");
        p.setProperty("offset.storage", "org.apache.kafka.connect.storage.MemoryOffsetBackingStore");
        p.setProperty("offset.flush.interval.ms", "500");
        p.setProperty("database.hostname", "127.0.0.1");
        p.setProperty("database.port", port);
        p.setProperty("database.user", "rightlink");
        p.setProperty("database.dbname", database);
        p.setProperty("topic.prefix", "told");
        p.setProperty("plugin.name", "pgoutput");
        p.setProperty("slot.name", slot);
        p.setProperty("slot.drop.on.stop", "true");
        p.setProperty("publication.name", "of_" + slot);
        p.setProperty("publication.autocreate.mode", publications);
        p.setProperty("table.include.list", "public.seen,public.t001,app.t004");
        AtomicInteger events = new AtomicInteger();
        DebeziumEngine<ChangeEvent<String, String>> engine =
            DebeziumEngine.create(Json.class).using(p).notifying(event -> events.incrementAndGet()).build();
        ExecutorService runner = Executors.newSingleThreadExecutor();
        runner.execute(engine);
        Thread.sleep(8000);
        engine.close();
        runner.shutdown();
        runner.awaitTermination(20, TimeUnit.SECONDS);
        System.err.println(slot + ": " + events.get() + " events");
    }

    public static void main(String[] args) throws Exception {
        follow(args[0], args[1], "own_tables", "filtered");
        follow(args[0], args[1], "all_tables", "all_tables");
        System.exit(0);
    }
}
