import java.math.BigDecimal;
import java.sql.*;
import java.util.*;
import javax.sql.XAConnection;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;
import org.postgresql.xa.PGXADataSource;

/** pgJDBC: prepared statements and batches, fetch sizes, generated keys, metadata, functions that return refcursors, COPY, XA. */
public class UsePgjdbc {
    interface Work {
        Object run() throws Exception;
    }

    static Connection connection;
    static String url;

    static void attempt(String label, Work work) {
        try {
            Object result = work.run();
            if (result instanceof List<?> list) {
                System.out.println(label + ": " + list.size());
                list.forEach(row -> System.out.println("    " + row));
            } else {
                System.out.println(label + ": " + result);
            }
        } catch (Exception error) {
            Throwable cause = error instanceof XAException && error.getCause() != null ? error.getCause() : error;
            String state = cause instanceof SQLException sql ? sql.getSQLState() : cause.getClass().getSimpleName();
            System.out.println(label + ": ERROR " + state + " " + String.valueOf(cause.getMessage()).lines().findFirst().orElse(""));
        }
    }

    static List<String> rows(ResultSet set) throws SQLException {
        List<String> rows = new ArrayList<>();
        ResultSetMetaData meta = set.getMetaData();
        while (set.next()) {
            List<String> cells = new ArrayList<>();
            for (int i = 1; i <= meta.getColumnCount(); i++) {
                cells.add(String.valueOf(set.getObject(i)));
            }
            rows.add(String.join(", ", cells));
        }
        return rows;
    }

    static List<String> query(Connection on, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = on.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) {
                statement.setObject(i + 1, values[i]);
            }
            return rows(statement.executeQuery());
        }
    }

    static void run(String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    public static void main(String[] arguments) throws Exception {
        url = "jdbc:" + arguments[0].replace("postgres@", "") + "?user=postgres&stringtype=unspecified";
        connection = DriverManager.getConnection(url);
        run("CREATE TABLE part (id serial PRIMARY KEY, name text NOT NULL, price numeric(10,2), made date, at timestamptz, ok boolean, raw bytea, tags text[])");
        run("CREATE TABLE stock (id int PRIMARY KEY, part int REFERENCES part ON DELETE CASCADE, n bigint, UNIQUE (part, id))");
        statements();
        metadata();
        functions();
        transactions();
        copies();
        xa();
    }

    static void statements() throws Exception {
        attempt("generated keys", () -> {
            List<String> keys = new ArrayList<>();
            String sql = "INSERT INTO part (name, price, made, ok, raw, tags) VALUES (?, ?, ?, ?, ?, ?)";
            try (PreparedStatement insert = connection.prepareStatement(sql, new String[] {"id", "name"})) {
                for (int i = 0; i < 40; i++) {
                    insert.setString(1, "part " + i);
                    insert.setBigDecimal(2, new BigDecimal(i).movePointLeft(1));
                    insert.setDate(3, java.sql.Date.valueOf("2024-02-" + String.format("%02d", 1 + i % 28)));
                    insert.setBoolean(4, i % 2 == 0);
                    insert.setBytes(5, new byte[] {(byte) i, 0, -1});
                    insert.setArray(6, connection.createArrayOf("text", new String[] {"a" + i, null}));
                    insert.executeUpdate();
                    keys.addAll(rows(insert.getGeneratedKeys()));
                }
            }
            return keys;
        });
        attempt("batch", () -> {
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO stock VALUES (?, ?, ?)")) {
                for (int i = 0; i < 150; i++) {
                    insert.setInt(1, i);
                    insert.setInt(2, 1 + i % 40);
                    insert.setLong(3, i * 10L);
                    insert.addBatch();
                }
                return Arrays.stream(insert.executeBatch()).sum();
            }
        });
        attempt("failed batch", () -> {
            try (Statement batch = connection.createStatement()) {
                batch.addBatch("UPDATE stock SET n = n + 1 WHERE id = 1");
                batch.addBatch("INSERT INTO stock VALUES (1, 1, 1)");
                batch.addBatch("UPDATE stock SET n = n + 1 WHERE id = 2");
                return Arrays.toString(batch.executeBatch());
            } catch (BatchUpdateException error) {
                return error.getSQLState() + " " + Arrays.toString(error.getUpdateCounts());
            }
        });
        // From the fifth execution on the server has the statement prepared and values come in binary.
        for (int i = 0; i < 8; i++) {
            int id = i;
            attempt("prepared", () -> query(connection, "SELECT id, name, price, made, ok FROM part WHERE id = ? OR price > ? ORDER BY id LIMIT 3", id, new BigDecimal("3.5")));
        }
        attempt("join", () -> query(connection, "SELECT p.name, sum(s.n), count(*) FROM part p JOIN stock s ON s.part = p.id GROUP BY p.name HAVING sum(s.n) > ? ORDER BY 2 DESC, 1 LIMIT 6", 3000));
        attempt("array", () -> query(connection, "SELECT name FROM part WHERE id = ANY (?) ORDER BY id", connection.createArrayOf("int4", new Integer[] {3, 1, 9})));
        attempt("unique", () -> { run("INSERT INTO stock VALUES (1, 1, 1)"); return "?"; });
        attempt("not null", () -> { run("INSERT INTO part (price) VALUES (1)"); return "?"; });
        attempt("type", () -> query(connection, "SELECT * FROM part WHERE id = ?::int", "seven"));
        attempt("fetch size", () -> {
            connection.setAutoCommit(false);
            try (PreparedStatement statement = connection.prepareStatement("SELECT s.id, p.name FROM stock s JOIN part p ON p.id = s.part ORDER BY s.id")) {
                statement.setFetchSize(7);
                ResultSet set = statement.executeQuery();
                int sum = 0;
                int between = 0;
                while (set.next()) {
                    sum += set.getInt(1);
                    if (set.getRow() % 50 == 0) {
                        between += Integer.parseInt(query(connection, "SELECT count(*) FROM stock WHERE id < ?", set.getInt(1)).get(0));
                    }
                }
                return sum + " " + between;
            } finally {
                connection.commit();
                connection.setAutoCommit(true);
            }
        });
        attempt("updatable", () -> {
            try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
                ResultSet set = statement.executeQuery("SELECT id, n FROM stock WHERE id < 4 ORDER BY id");
                set.absolute(2);
                set.updateLong("n", 4242);
                set.updateRow();
                set.last();
                set.deleteRow();
                set.moveToInsertRow();
                set.updateInt("id", 5000);
                set.updateLong("n", 1);
                set.insertRow();
                return query(connection, "SELECT id, n FROM stock WHERE id < 4 OR id = 5000 ORDER BY id");
            }
        });
        attempt("several", () -> {
            try (Statement statement = connection.createStatement()) {
                List<String> seen = new ArrayList<>();
                boolean isRows = statement.execute("SELECT 1; UPDATE stock SET n = 0 WHERE id IN (7, 8); SELECT count(*) FROM part");
                while (isRows || statement.getUpdateCount() != -1) {
                    seen.add(isRows ? rows(statement.getResultSet()).toString() : "count " + statement.getUpdateCount());
                    isRows = statement.getMoreResults();
                }
                return seen;
            }
        });
        attempt("changed", () -> {
            try (PreparedStatement statement = connection.prepareStatement("SELECT * FROM stock WHERE id = ?")) {
                List<String> seen = new ArrayList<>();
                for (int i = 0; i < 7; i++) {
                    statement.setInt(1, 20);
                    seen.addAll(rows(statement.executeQuery()));
                }
                run("ALTER TABLE stock ADD COLUMN more text DEFAULT 'm'");
                seen.addAll(rows(statement.executeQuery()));
                return seen;
            }
        });
    }

    static void metadata() {
        attempt("tables", () -> { DatabaseMetaData meta = connection.getMetaData(); List<String> seen = new ArrayList<>(); ResultSet set = meta.getTables(null, "public", "%", new String[] {"TABLE"}); while (set.next()) { seen.add(set.getString("TABLE_NAME")); } return seen; });
        attempt("columns", () -> { ResultSet set = connection.getMetaData().getColumns(null, "public", "part", "%"); List<String> seen = new ArrayList<>(); while (set.next()) { seen.add(set.getString("COLUMN_NAME") + " " + set.getString("TYPE_NAME") + " " + set.getInt("COLUMN_SIZE") + " " + set.getString("IS_NULLABLE") + " " + set.getString("COLUMN_DEF")); } return seen; });
        attempt("keys", () -> { ResultSet set = connection.getMetaData().getPrimaryKeys(null, "public", "stock"); List<String> seen = new ArrayList<>(); while (set.next()) { seen.add(set.getString("COLUMN_NAME") + " " + set.getString("PK_NAME")); } return seen; });
        attempt("foreign keys", () -> { ResultSet set = connection.getMetaData().getImportedKeys(null, "public", "stock"); List<String> seen = new ArrayList<>(); while (set.next()) { seen.add(set.getString("PKTABLE_NAME") + " " + set.getString("FKCOLUMN_NAME") + " " + set.getInt("DELETE_RULE")); } return seen; });
        attempt("indexes", () -> { ResultSet set = connection.getMetaData().getIndexInfo(null, "public", "stock", true, false); List<String> seen = new ArrayList<>(); while (set.next()) { seen.add(set.getString("INDEX_NAME") + " " + set.getString("COLUMN_NAME")); } return seen; });
    }

    static void functions() throws Exception {
        run("CREATE FUNCTION open_parts(low int) RETURNS refcursor LANGUAGE plpgsql AS 'DECLARE c refcursor; BEGIN OPEN c FOR SELECT p.id, p.name, sum(n) FROM part p JOIN stock s ON s.part = p.id WHERE p.id > low GROUP BY p.id, p.name ORDER BY p.id LIMIT 5; RETURN c; END'");
        run("CREATE FUNCTION open_named(c refcursor) RETURNS refcursor LANGUAGE plpgsql AS 'BEGIN OPEN c FOR SELECT id FROM stock WHERE id < 4 ORDER BY id; RETURN c; END'");
        run("CREATE FUNCTION several_cursors() RETURNS SETOF refcursor LANGUAGE plpgsql AS 'DECLARE a refcursor := ''a''; b refcursor := ''b''; BEGIN OPEN a FOR SELECT 1; RETURN NEXT a; OPEN b FOR SELECT count(*) FROM part; RETURN NEXT b; END'");
        run("CREATE PROCEDURE add_stock(INOUT id int, amount int) LANGUAGE plpgsql AS 'BEGIN UPDATE stock s SET n = n + amount WHERE s.id = add_stock.id; id := id + 1; END'");
        run("CREATE FUNCTION total(of_part int, OUT pieces bigint, OUT lines bigint) LANGUAGE sql AS 'SELECT sum(n), count(*) FROM stock WHERE part = of_part'");
        connection.setAutoCommit(false);
        for (int round = 0; round < 2; round++) {
            attempt("refcursor", () -> {
                try (CallableStatement call = connection.prepareCall("{? = call open_parts(?)}")) {
                    call.registerOutParameter(1, Types.REF_CURSOR);
                    call.setInt(2, 30);
                    call.execute();
                    return rows((ResultSet) call.getObject(1));
                }
            });
            connection.commit();
        }
        attempt("refcursor by SELECT", () -> {
            try (Statement statement = connection.createStatement()) {
                ResultSet set = statement.executeQuery("SELECT open_parts(35)");
                set.next();
                return rows((ResultSet) set.getObject(1));
            }
        });
        connection.commit();
        attempt("refcursor of a name", () -> {
            query(connection, "SELECT open_named('mine')");
            List<String> seen = query(connection, "FETCH 2 FROM mine");
            seen.addAll(query(connection, "FETCH ALL FROM mine"));
            return seen;
        });
        connection.commit();
        attempt("refcursors", () -> {
            List<String> seen = new ArrayList<>();
            for (String name : query(connection, "SELECT several_cursors()::text")) {
                seen.addAll(query(connection, "FETCH ALL FROM " + name));
            }
            return seen;
        });
        connection.commit();
        connection.setAutoCommit(true);
        attempt("procedure", () -> {
            try (CallableStatement call = connection.prepareCall("call add_stock(?, ?)")) {
                call.registerOutParameter(1, Types.INTEGER);
                call.setInt(1, 10);
                call.setInt(2, 5);
                call.execute();
                return call.getInt(1) + " " + query(connection, "SELECT n FROM stock WHERE id = 10");
            }
        });
        attempt("out parameters", () -> {
            try (CallableStatement call = connection.prepareCall("{call total(?, ?, ?)}")) {
                call.setInt(1, 5);
                call.registerOutParameter(2, Types.BIGINT);
                call.registerOutParameter(3, Types.BIGINT);
                call.execute();
                return call.getLong(2) + " " + call.getLong(3);
            }
        });
    }

    static void transactions() throws Exception {
        connection.setAutoCommit(false);
        attempt("savepoint", () -> {
            Savepoint savepoint = connection.setSavepoint("here");
            run("DELETE FROM stock WHERE id < 50");
            connection.rollback(savepoint);
            run("DELETE FROM stock WHERE id < 5");
            connection.commit();
            return query(connection, "SELECT count(*) FROM stock");
        });
        connection.rollback();
        connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        connection.setReadOnly(true);
        attempt("read only", () -> { run("DELETE FROM stock"); return "?"; });
        connection.rollback();
        connection.setReadOnly(false);
        connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        connection.setAutoCommit(true);
    }

    static void copies() {
        attempt("copy", () -> {
            CopyManager copy = connection.unwrap(PGConnection.class).getCopyAPI();
            StringBuilder text = new StringBuilder();
            for (int i = 1000; i < 1100; i++) {
                text.append(i).append(",").append(1 + i % 40).append(",").append(i).append("\n");
            }
            long in = copy.copyIn("COPY stock (id, part, n) FROM STDIN CSV", new java.io.StringReader(text.toString()));
            java.io.StringWriter out = new java.io.StringWriter();
            long sent = copy.copyOut("COPY (SELECT part, count(*) FROM stock WHERE id >= 1000 GROUP BY 1 ORDER BY 1 LIMIT 4) TO STDOUT", out);
            return in + " " + sent + " " + out.toString().replace('\n', '|');
        });
    }

    record Branch(int number) implements Xid {
        public int getFormatId() {
            return 7;
        }

        public byte[] getGlobalTransactionId() {
            return ("global " + number).getBytes();
        }

        public byte[] getBranchQualifier() {
            return new byte[] {1, 2, 3};
        }
    }

    static void xa() throws Exception {
        PGXADataSource source = new PGXADataSource();
        source.setUrl(url);
        String[] endings = {"commit", "rollback", "one phase", "recover"};
        for (int i = 0; i < 8; i++) {
            boolean gathers = i >= 4;
            String ending = endings[i % 4];
            Branch branch = new Branch(i);
            attempt("xa " + ending + (gathers ? " after a gather" : ""), () -> {
                List<String> seen = new ArrayList<>();
                XAConnection opened = source.getXAConnection();
                XAResource resource = opened.getXAResource();
                resource.start(branch, XAResource.TMNOFLAGS);
                Connection inside = opened.getConnection();
                if (gathers) {
                    seen.addAll(query(inside, "SELECT name, rank() OVER (ORDER BY price DESC) FROM part ORDER BY 2 LIMIT 3"));
                    seen.addAll(query(inside, "SELECT count(*) FROM stock a JOIN stock b ON a.part = b.id"));
                }
                try (Statement statement = inside.createStatement()) {
                    statement.executeUpdate("UPDATE stock SET n = n + 1");
                    statement.executeUpdate("INSERT INTO part (name) VALUES ('xa " + branch.number() + "')");
                }
                resource.end(branch, XAResource.TMSUCCESS);
                if (ending.equals("one phase")) {
                    resource.commit(branch, true);
                } else {
                    seen.add("prepared " + resource.prepare(branch));
                    if (ending.equals("recover")) {
                        opened.close();
                        opened = source.getXAConnection();
                        resource = opened.getXAResource();
                        for (Xid found : resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)) {
                            seen.add(new String(found.getGlobalTransactionId()));
                            resource.commit(found, false);
                        }
                    } else if (ending.equals("commit")) {
                        resource.commit(branch, false);
                    } else {
                        resource.rollback(branch);
                    }
                }
                opened.close();
                seen.addAll(query(connection, "SELECT sum(n), (SELECT count(*) FROM part WHERE name LIKE 'xa%') FROM stock"));
                return seen;
            });
        }
    }
}
