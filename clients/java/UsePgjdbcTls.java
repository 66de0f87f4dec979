import java.net.URI;
import java.sql.*;
import java.util.*;

/** pgJDBC to a server that takes encrypted connections only: sslmode=verify-full, SCRAM-SHA-256-PLUS, and what must be refused. */
public class UsePgjdbcTls {
    static String host;
    static Properties base = new Properties();

    /** The base's properties, but for these: names and values by turns. */
    static Connection connect(String host, String... changed) throws SQLException {
        Properties properties = new Properties();
        properties.putAll(base);
        for (int i = 0; i < changed.length; i += 2) {
            properties.setProperty(changed[i], changed[i + 1]);
        }
        return DriverManager.getConnection("jdbc:postgresql://" + host, properties);
    }

    static void attempt(String label, String host, String... changed) {
        try (Connection connection = connect(host, changed); Statement statement = connection.createStatement()) {
            ResultSet set = statement.executeQuery("SELECT current_user, ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()");
            set.next();
            System.out.println(label + ": " + set.getString(1) + " " + set.getBoolean(2) + " " + set.getString(3));
        } catch (SQLException error) {
            String words = String.valueOf(error.getMessage()).lines().findFirst().orElse("").replaceAll("/\\S+/", "");
            System.out.println(label + ": ERROR " + error.getSQLState() + " " + words);
        }
    }

    public static void main(String[] arguments) throws Exception {
        URI to = new URI(arguments[0]);
        host = to.getHost() + ":" + to.getPort() + to.getPath();
        String[] account = to.getUserInfo().split(":");
        base.setProperty("user", account[0]);
        base.setProperty("password", account[1]);
        for (String setting : to.getQuery().split("&")) {
            base.setProperty(setting.split("=")[0], setting.split("=")[1]);
        }
        base.setProperty("channelBinding", "require");
        String root = base.getProperty("sslrootcert");

        attempt("verify-full, bound", host);
        attempt("verify-full, not bound", host, "channelBinding", "disable");
        attempt("require, bound", host, "sslmode", "require");
        attempt("another name", host.replace("localhost", "127.0.0.1"));
        attempt("another authority", host, "sslrootcert", root.replace("root.crt", "other.crt"));
        attempt("no encryption", host, "sslmode", "disable", "channelBinding", "disable");
        attempt("bound to no encryption", host, "sslmode", "disable");
        attempt("wrong password", host, "password", "guess");
        work();
    }

    /** Prepared statements in binary, a batch, and more bytes than a record of TLS holds. */
    static void work() throws SQLException {
        try (Connection connection = connect(host); Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE sealed (k int PRIMARY KEY, v text)");
            connection.setAutoCommit(false);
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO sealed VALUES (?, ?)")) {
                for (int k = 0; k < 300; k++) {
                    insert.setInt(1, k);
                    insert.setString(2, "x".repeat(1000 + k));
                    insert.addBatch();
                }
                System.out.println("batch: " + Arrays.stream(insert.executeBatch()).sum());
            }
            connection.commit();
            try (PreparedStatement select = connection.prepareStatement("SELECT length(v) FROM sealed WHERE k = ?")) {
                int sum = 0;
                for (int k = 0; k < 20; k++) {
                    select.setInt(1, k);
                    ResultSet set = select.executeQuery();
                    set.next();
                    sum += set.getInt(1);
                }
                System.out.println("prepared: " + sum);
            }
            ResultSet all = statement.executeQuery("SELECT v FROM sealed ORDER BY k");
            long bytes = 0;
            while (all.next()) {
                bytes += all.getString(1).length();
            }
            System.out.println("all: " + bytes);
            connection.commit();
        }
    }
}
