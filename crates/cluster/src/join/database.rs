//! What belongs to the database itself: its owner, rights, comment and settings.

use pgerror::{PgError, Result, SqlState};

use crate::sql::{Session, literal};

/// Statements that make a database like the primary datanode's, in their order. Rights are granted by those who granted them.
const PROPERTIES_SQL: &str = "
    WITH d AS (SELECT *, pg_get_userbyid(datdba) AS owner FROM pg_database WHERE datname = current_database()),
    granted AS (
        SELECT d.datname, a.grantor <> d.datdba AS is_later, pg_get_userbyid(a.grantor) AS grantor, a.privilege_type,
               CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS grantee,
               a.is_grantable
        FROM d CROSS JOIN aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) AS a)
    SELECT statement FROM (
        SELECT 1 AS place, format('ALTER DATABASE %I OWNER TO %I', datname, owner) AS statement FROM d
        UNION ALL SELECT 2, format('ALTER DATABASE %I CONNECTION LIMIT %s', datname, datconnlimit) FROM d
        UNION ALL SELECT 2, format('ALTER DATABASE %I IS_TEMPLATE %s', datname, datistemplate::text) FROM d
        UNION ALL SELECT 3, format('COMMENT ON DATABASE %I IS %L', datname, shobj_description(oid, 'pg_database')) FROM d
        UNION ALL SELECT 4, format('REVOKE ALL ON DATABASE %I FROM PUBLIC, %I', datname, owner) FROM d
        UNION ALL SELECT 5 + is_later::int, format('SET LOCAL ROLE %I; GRANT %s ON DATABASE %I TO %s%s; RESET ROLE',
            grantor, privilege_type, datname, grantee, CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
        FROM granted) AS s
    ORDER BY place, statement";

/// ALTER ROLE … SET, ALTER DATABASE … SET, and both in one; what is not about this database is for all of them.
const SETTINGS_SQL: &str = "
    SELECT s.setdatabase <> 0, CASE WHEN s.setrole <> 0 THEN pg_get_userbyid(s.setrole) END, s.setconfig::text
    FROM pg_db_role_setting AS s
    WHERE s.setdatabase IN (";

const OWN_DATABASE: &str = "(SELECT oid FROM pg_database WHERE datname = current_database())";

/// They may be changed while they are copied, by a statement in another database.
const ATTEMPTS_MAX: usize = 5;

/// Copies them. The settings of roles in all databases come with the first one: later they may be changed on the server itself.
pub(super) async fn copy(primary: &Session, server: &Session, is_first: bool) -> Result<()> {
    let mut script = script(primary, is_first).await?;
    for _ in 0..ATTEMPTS_MAX {
        server.run(&script).await?;
        let now = self::script(primary, is_first).await?;
        if now == script {
            return Ok(());
        }
        script = now;
    }
    Err(PgError::new(SqlState::SERIALIZATION_FAILURE, "the settings of the database keep changing"))
}

async fn script(primary: &Session, is_first: bool) -> Result<String> {
    let databases = if is_first { format!("0, {OWN_DATABASE}") } else { OWN_DATABASE.to_owned() };
    let mut script = "BEGIN;\n".to_owned();
    for statement in primary.rows(PROPERTIES_SQL).await?.into_iter().flatten().flatten() {
        script += &format!("{statement};\n");
    }
    // The rows themselves: how a value is written in SET depends on the parameter.
    script += &format!("DELETE FROM pg_db_role_setting WHERE setdatabase IN ({databases});\n");
    for row in primary.rows(&format!("{SETTINGS_SQL}{databases}) ORDER BY 1, 2")).await? {
        let [in_database, role, settings] = <[Option<String>; 3]>::try_from(row)
            .map_err(|_| PgError::internal("a row of other columns than asked for"))?;
        let database = if in_database.as_deref() == Some("t") { OWN_DATABASE } else { "0" };
        let role = role
            .map_or("0".to_owned(), |role| format!("(SELECT oid FROM pg_roles WHERE rolname = {})", literal(&role)));
        let settings = literal(&settings.unwrap_or_default());
        script += &format!("INSERT INTO pg_db_role_setting VALUES ({database}, {role}, {settings});\n");
    }
    Ok(script + "COMMIT;")
}
