// What JDBC's metadata asks of catalogs: `Tools PORT DATABASE`.
import java.sql.*;

public class Tools {
    interface Ask { ResultSet ask() throws SQLException; }

    static void ask(Ask one) {
        try (ResultSet rows = one.ask()) {
            while (rows != null && rows.next()) { }
        } catch (SQLException e) {
            System.err.println(e.getMessage());
        }
    }

    public static void main(String[] args) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + args[0] + "/" + args[1] + "?user=rightlink&preferQueryMode=simple";
        try (Connection c = DriverManager.getConnection(url)) {
            DatabaseMetaData m = c.getMetaData();
            for (String schema : new String[] {null, "public", "app"}) {
                String t = "app".equals(schema) ? "t004" : "t001";
                ask(() -> m.getTables(null, schema, "%", null));
                ask(() -> m.getTables(null, schema, "t00%", new String[] {"TABLE", "VIEW"}));
                ask(() -> m.getColumns(null, schema, t, "%"));
                ask(() -> m.getColumns(null, schema, "%", "%"));
                ask(() -> m.getPrimaryKeys(null, schema, t));
                ask(() -> m.getImportedKeys(null, schema, t));
                ask(() -> m.getExportedKeys(null, schema, t));
                ask(() -> m.getIndexInfo(null, schema, t, false, false));
                ask(() -> m.getIndexInfo(null, schema, t, true, false));
                ask(() -> m.getBestRowIdentifier(null, schema, t, 0, true));
                ask(() -> m.getVersionColumns(null, schema, t));
                ask(() -> m.getTablePrivileges(null, schema, t));
                ask(() -> m.getColumnPrivileges(null, schema, t, "%"));
                ask(() -> m.getProcedures(null, schema, "%"));
                ask(() -> m.getFunctions(null, schema, "%"));
                ask(() -> m.getFunctionColumns(null, schema, "%", "%"));
                ask(() -> m.getProcedureColumns(null, schema, "%", "%"));
                ask(() -> m.getUDTs(null, schema, "%", null));
            }
            ask(() -> m.getCrossReference(null, "public", "t000", null, "public", "t001"));
            ask(() -> m.getSchemas());
            ask(() -> m.getSchemas(null, "a%"));
            ask(() -> m.getCatalogs());
            ask(() -> m.getTableTypes());
            ask(() -> m.getTypeInfo());
            m.getSQLKeywords();
            m.getMaxConnections();
            m.getMaxColumnNameLength();
            try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("select id, name, feels, tags, c4 from t001")) {
                ResultSetMetaData d = r.getMetaData();
                for (int i = 1; i <= d.getColumnCount(); i++) {
                    d.isAutoIncrement(i);
                    d.isNullable(i);
                    d.getColumnTypeName(i);
                    d.getColumnClassName(i);
                }
            }
            c.createArrayOf("mood", new Object[] {}).toString();
        }
    }
}
