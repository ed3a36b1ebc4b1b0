import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

/** What the checks of Java's tools share: a place to connect to, rows as text, and assertions. */
final class Check {
    final String url;

    Check(String[] args) {
        url = "jdbc:postgresql://127.0.0.1:" + args[0] + "/" + args[1];
    }

    Connection connect() throws SQLException {
        return DriverManager.getConnection(url, "rightlink", "");
    }

    /** The rows of a query, their values with bars between them. */
    List<String> rows(String sql) throws SQLException {
        try (Connection own = connect();
                ResultSet found = own.createStatement().executeQuery(sql)) {
            List<String> rows = new ArrayList<>();
            while (found.next()) {
                List<String> row = new ArrayList<>();
                for (int at = 1; at <= found.getMetaData().getColumnCount(); at++) {
                    row.add(String.valueOf(found.getString(at)));
                }
                rows.add(String.join("|", row));
            }
            return rows;
        }
    }

    void run(String sql) throws SQLException {
        try (Connection own = connect()) {
            own.createStatement().execute(sql);
        }
    }

    static void equal(Object found, Object expected) {
        if (!String.valueOf(found).equals(String.valueOf(expected))) {
            throw new AssertionError("found " + found + ", expected " + expected);
        }
    }

    static void that(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    /** Work that may fail. */
    interface Work {
        void run() throws Exception;
    }

    /** The error that the work ends with, which is of this class, or was caused by one. */
    static <E extends Throwable> E fails(Class<E> wanted, Work work) {
        try {
            work.run();
        } catch (Throwable error) {
            for (Throwable one = error; one != null; one = one.getCause()) {
                if (wanted.isInstance(one)) {
                    return wanted.cast(one);
                }
            }
            throw new AssertionError("another error", error);
        }
        throw new AssertionError("nothing was refused");
    }
}
