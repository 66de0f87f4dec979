//! Names and values as SQL.

/// `quote_identifier` of PostgreSQL, erring on the side of quoting (reserved words are not looked up: a name made of
/// lower-case letters, digits and `_` is quoted too when it is not obviously safe).
pub fn quote_identifier(name: &str) -> String {
    let plain =
        name.bytes().enumerate().all(|(i, b)| b.is_ascii_lowercase() || b == b'_' || (i > 0 && b.is_ascii_digit()));
    if plain && !name.is_empty() && !is_reserved(name) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// `quote_literal`: doubles quotes; a text with a backslash gets the `E''` form, right under both settings of
/// `standard_conforming_strings`.
pub fn quote_literal(text: &str) -> String {
    if text.contains('\\') {
        return format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
    }
    format!("'{}'", text.replace('\'', "''"))
}

/// Keywords that cannot stand bare as a column or table name (kwlist.h of PostgreSQL 18: all but the unreserved).
fn is_reserved(word: &str) -> bool {
    const WORDS: &str = " all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both \
        case cast char character check coalesce collate collation column concurrently constraint create cross current_catalog \
        current_date current_role current_schema current_time current_timestamp current_user dec decimal default deferrable \
        desc distinct do else end except exists extract false fetch float for foreign freeze from full grant greatest group \
        grouping having ilike in initially inner inout int integer intersect interval into is isnull join json json_array \
        json_arrayagg json_exists json_object json_objectagg json_query json_scalar json_serialize json_table json_value \
        lateral leading least left like limit localtime localtimestamp merge_action national natural nchar none normalize \
        not notnull null nullif numeric offset on only or order out outer overlaps overlay placing position precision \
        primary real references returning right row select session_user setof similar smallint some substring symmetric \
        system_user table tablesample then time timestamp to trailing treat trim true union unique user using values \
        varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest \
        xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable ";
    WORDS.split_ascii_whitespace().any(|w| w == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_quoted_when_they_must_be() {
        assert_eq!(quote_identifier("l_orderkey"), "l_orderkey");
        assert_eq!(quote_identifier("Mixed"), "\"Mixed\"");
        assert_eq!(quote_identifier("order"), "\"order\"");
        assert_eq!(quote_identifier("a\"b"), "\"a\"\"b\"");
        assert_eq!(quote_identifier(""), "\"\"");
    }

    #[test]
    fn literals_are_safe_under_both_string_settings() {
        assert_eq!(quote_literal("it's"), "'it''s'");
        assert_eq!(quote_literal("a\\'b"), "E'a\\\\''b'");
    }
}
