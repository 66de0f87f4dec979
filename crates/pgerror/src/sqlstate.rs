//! SQLSTATE codes (PostgreSQL `errcodes.txt`); only those we raise or act upon have names.

use std::fmt;

/// Five ASCII bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState([u8; 5]);

macro_rules! states {
    ($($name:ident = $code:literal),* $(,)?) => {
        #[allow(missing_docs)]
        impl SqlState {
            $(pub const $name: SqlState = SqlState(*$code);)*
        }
    };
}

states! {
    SUCCESSFUL_COMPLETION = b"00000",
    WARNING = b"01000",
    CONNECTION_EXCEPTION = b"08000",
    CONNECTION_FAILURE = b"08006",
    PROTOCOL_VIOLATION = b"08P01",
    FEATURE_NOT_SUPPORTED = b"0A000",
    CARDINALITY_VIOLATION = b"21000",
    INVALID_TEXT_REPRESENTATION = b"22P02",
    INVALID_BINARY_REPRESENTATION = b"22P03",
    BAD_COPY_FILE_FORMAT = b"22P04",
    UNTRANSLATABLE_CHARACTER = b"22P05",
    CHARACTER_NOT_IN_REPERTOIRE = b"22021",
    NUMERIC_VALUE_OUT_OF_RANGE = b"22003",
    DATETIME_FIELD_OVERFLOW = b"22008",
    INVALID_DATETIME_FORMAT = b"22007",
    STRING_DATA_RIGHT_TRUNCATION = b"22001",
    INVALID_PARAMETER_VALUE = b"22023",
    NOT_NULL_VIOLATION = b"23502",
    FOREIGN_KEY_VIOLATION = b"23503",
    UNIQUE_VIOLATION = b"23505",
    CHECK_VIOLATION = b"23514",
    INVALID_CURSOR_STATE = b"24000",
    ACTIVE_SQL_TRANSACTION = b"25001",
    NO_ACTIVE_SQL_TRANSACTION = b"25P01",
    READ_ONLY_SQL_TRANSACTION = b"25006",
    IN_FAILED_SQL_TRANSACTION = b"25P02",
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = b"25P03",
    INVALID_SQL_STATEMENT_NAME = b"26000",
    TRIGGERED_DATA_CHANGE_VIOLATION = b"27000",
    INVALID_AUTHORIZATION = b"28000",
    INVALID_PASSWORD = b"28P01",
    DEPENDENT_OBJECTS_STILL_EXIST = b"2BP01",
    INVALID_TRANSACTION_TERMINATION = b"2D000",
    INVALID_CURSOR_NAME = b"34000",
    INVALID_CATALOG_NAME = b"3D000",
    INVALID_SCHEMA_NAME = b"3F000",
    INVALID_SAVEPOINT = b"3B001",
    SERIALIZATION_FAILURE = b"40001",
    STATEMENT_COMPLETION_UNKNOWN = b"40003",
    DEADLOCK_DETECTED = b"40P01",
    INSUFFICIENT_PRIVILEGE = b"42501",
    SYNTAX_ERROR = b"42601",
    DUPLICATE_COLUMN = b"42701",
    AMBIGUOUS_COLUMN = b"42702",
    UNDEFINED_COLUMN = b"42703",
    UNDEFINED_OBJECT = b"42704",
    DUPLICATE_OBJECT = b"42710",
    GROUPING_ERROR = b"42803",
    WRONG_OBJECT_TYPE = b"42809",
    INVALID_FOREIGN_KEY = b"42830",
    UNDEFINED_FUNCTION = b"42883",
    UNDEFINED_TABLE = b"42P01",
    DUPLICATE_CURSOR = b"42P03",
    DUPLICATE_DATABASE = b"42P04",
    DUPLICATE_PREPARED_STATEMENT = b"42P05",
    DUPLICATE_SCHEMA = b"42P06",
    DUPLICATE_TABLE = b"42P07",
    INVALID_COLUMN_REFERENCE = b"42P10",
    INVALID_TABLE_DEFINITION = b"42P16",
    INDETERMINATE_DATATYPE = b"42P18",
    INDETERMINATE_COLLATION = b"42P22",
    DISK_FULL = b"53100",
    OUT_OF_MEMORY = b"53200",
    TOO_MANY_CONNECTIONS = b"53300",
    PROGRAM_LIMIT_EXCEEDED = b"54000",
    STATEMENT_TOO_COMPLEX = b"54001",
    OBJECT_NOT_IN_PREREQUISITE_STATE = b"55000",
    OBJECT_IN_USE = b"55006",
    CANT_CHANGE_RUNTIME_PARAM = b"55P02",
    LOCK_NOT_AVAILABLE = b"55P03",
    QUERY_CANCELED = b"57014",
    ADMIN_SHUTDOWN = b"57P01",
    CRASH_SHUTDOWN = b"57P02",
    CANNOT_CONNECT_NOW = b"57P03",
    IDLE_SESSION_TIMEOUT = b"57P05",
    IO_ERROR = b"58030",
    UNDEFINED_FILE = b"58P01",
    CONFIG_FILE_ERROR = b"F0000",
    INTERNAL_ERROR = b"XX000",
}

impl SqlState {
    /// From the wire; `None` unless it is five ASCII digits or capitals.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let code: [u8; 5] = bytes.try_into().ok()?;
        code.iter().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase()).then_some(Self(code))
    }

    /// The five bytes.
    pub fn as_bytes(&self) -> &[u8; 5] {
        &self.0
    }

    /// The five characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
