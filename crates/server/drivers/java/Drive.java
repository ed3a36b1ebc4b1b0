// pgjdbc against a server at PGHOST and PGPORT, with PGUSER and PGPASSWORD.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

public class Drive {
    static void expect(String what, Object got, Object wanted) {
        if (!got.equals(wanted)) {
            throw new AssertionError(what + ": " + got + " instead of " + wanted);
        }
    }

    static void refused(Statement statement, String sql, String state) {
        try {
            statement.execute(sql);
        } catch (SQLException error) {
            expect(sql, error.getSQLState(), state);
            return;
        }
        throw new AssertionError(sql + " was not refused");
    }

    public static void main(String[] args) throws Exception {
        String url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT")
            + "/test";
        Properties options = new Properties();
        options.setProperty("user", System.getenv("PGUSER"));
        options.setProperty("password", System.getenv("PGPASSWORD"));
        options.setProperty("sslmode", "require");
        // The server knows no other zone than UTC.
        java.util.TimeZone.setDefault(java.util.TimeZone.getTimeZone("UTC"));
        try (Connection connection = DriverManager.getConnection(url, options);
            Statement statement = connection.createStatement()) {
            statement.execute("drop table if exists j");
            statement.execute("create table j (id int primary key, name text, at timestamp)");
            PreparedStatement insert =
                connection.prepareStatement("insert into j (id, name) values (?, ?)");
            for (int id = 0; id < 100; id++) {
                insert.setInt(1, id);
                insert.setString(2, "n" + id);
                insert.addBatch();
            }
            insert.executeBatch();
            PreparedStatement select =
                connection.prepareStatement("select name from j where id = ?");
            for (int id = 0; id < 20; id++) {
                select.setInt(1, id);
                ResultSet rows = select.executeQuery();
                rows.next();
                expect("name", rows.getString(1), "n" + id);
            }
            PreparedStatement some =
                connection.prepareStatement("select count(*), array['a', 'b'] from j where id = any(?)");
            some.setArray(1, connection.createArrayOf("int4", new Integer[] {3, 5, 5000}));
            ResultSet counted = some.executeQuery();
            counted.next();
            expect("found", counted.getInt(1), 2);
            expect("words", ((String[]) counted.getArray(2).getArray())[1], "b");
            refused(statement, "insert into j (id) values (1)", "23505");
            refused(statement, "select 1/0", "22012");
            connection.setAutoCommit(false);
            Statement all = connection.createStatement();
            all.setFetchSize(10);
            ResultSet rows = all.executeQuery("select id from j order by id");
            int count = 0;
            while (rows.next()) {
                expect("id", rows.getInt(1), count);
                count++;
            }
            expect("count", count, 100);
            connection.rollback();
            connection.setAutoCommit(true);
            statement.setQueryTimeout(1);
            refused(statement, "select pg_sleep(60)", "57014");
            expect("version", connection.getMetaData().getDatabaseMajorVersion(), 15);
        }
        System.out.println("pgjdbc works");
    }
}
