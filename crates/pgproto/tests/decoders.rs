//! Decoders take whatever comes: bytes of anybody are values or errors, never a panic, and what our encoders make is read back.
//!
//! Each run tries other bytes; what fails is made as small as it can be and printed. `PROPTEST_CASES=100000 cargo test -p pgproto --test decoders` looks longer.

use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use pgerror::PgError;
use pgproto::backend::{self, Field};
use pgproto::frontend::{self, Bind};
use pgproto::scram;
use proptest::collection::vec;
use proptest::prelude::*;

/// Thousands of rounds of a hash: once.
static VERIFIER: LazyLock<String> = LazyLock::new(|| scram::Verifier::text_of("secret"));

/// Names and texts end with a NUL on the wire.
fn text() -> impl Strategy<Value = Bytes> {
    vec(1u8.., 0..40).prop_map(Bytes::from)
}

fn value() -> impl Strategy<Value = Option<Bytes>> {
    proptest::option::of(vec(any::<u8>(), 0..40).prop_map(Bytes::from))
}

/// Bytes with lengths and NULs in them as messages have, so that decoders get beyond their first field.
fn message() -> impl Strategy<Value = Bytes> {
    let piece = prop_oneof![
        vec(any::<u8>(), 0..12),
        text().prop_map(|text| [&text[..], b"\0"].concat()),
        any::<i16>().prop_map(|count| count.to_be_bytes().to_vec()),
        (0u16..4).prop_map(|count| count.to_be_bytes().to_vec()),
        any::<i32>().prop_map(|length| length.to_be_bytes().to_vec()),
        (-2i32..9).prop_map(|length| length.to_be_bytes().to_vec()),
    ];
    vec(piece, 0..12).prop_map(|pieces| Bytes::from(pieces.concat()))
}

/// What stands behind tag and length.
fn body(wire: BytesMut) -> Bytes {
    wire.freeze().slice(5..)
}

fn made(encode: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut wire = BytesMut::new();
    encode(&mut wire);
    body(wire)
}

proptest! {
    #[test]
    fn nothing_panics(bytes in message()) {
        let _ = frontend::decode_query(bytes.clone());
        let _ = frontend::decode_parse(bytes.clone());
        let _ = frontend::decode_bind(bytes.clone());
        let _ = frontend::decode_bind_names(bytes.clone());
        let _ = frontend::decode_bind_counts(bytes.clone());
        let _ = frontend::decode_called_function(bytes.clone());
        let _ = frontend::decode_function_call(bytes.clone());
        let _ = frontend::decode_describe(bytes.clone());
        let _ = frontend::decode_close(bytes.clone());
        let _ = frontend::decode_execute(bytes.clone());
        let _ = backend::decode_row_description(bytes.clone());
        let _ = backend::decode_parameter_description(bytes.clone());
        let _ = backend::decode_command_complete(bytes.clone());
        let _ = backend::decode_parameter_status(bytes.clone());
        let _ = backend::decode_copy_response(bytes.clone());
        let _ = backend::decode_data_row(bytes.clone());
        let _ = PgError::decode_body(bytes.clone());
        let _ = String::from_utf8(bytes.to_vec()).map(|text| scram::Verifier::parse(&text));
    }

    #[test]
    fn what_is_bound_is_read_back(
        names in (text(), text()),
        formats in vec(0i16..2, 0..5),
        parameters in vec(value(), 0..9),
        result_formats in vec(0i16..2, 0..5),
        cut in any::<prop::sample::Index>(),
    ) {
        let bind = Bind {
            portal: names.0,
            statement: names.1,
            parameter_formats: formats,
            parameters,
            result_formats,
        };
        let wire = made(|out| frontend::bind(out, &bind));
        prop_assert_eq!(frontend::decode_bind(wire.clone()).unwrap(), bind);
        // A part of it is no message.
        prop_assert!(frontend::decode_bind(wire.slice(..cut.index(wire.len()))).is_err());
    }

    #[test]
    fn what_is_parsed_is_read_back(name in text(), sql in text(), types in vec(any::<u32>(), 0..9)) {
        let parse = frontend::decode_parse(made(|out| frontend::parse(out, &name, &sql, &types))).unwrap();
        prop_assert_eq!((parse.name, parse.sql, parse.parameter_types), (name, sql, types));
    }

    #[test]
    fn what_is_described_is_read_back(
        fields in vec((text(), any::<(u32, i16, u32, i16, i32)>(), 0i16..2), 0..9),
    ) {
        let field = |(name, (table_oid, column_number, type_oid, type_size, type_modifier), format)| Field {
            name, table_oid, column_number, type_oid, type_size, type_modifier, format,
        };
        let fields: Vec<Field> = fields.into_iter().map(field).collect();
        let wire = made(|out| backend::row_description(out, &fields));
        prop_assert_eq!(backend::decode_row_description(wire).unwrap(), fields);
    }

    #[test]
    fn an_attacker_at_login_gets_an_error(first in vec(any::<u8>(), 0..120), last in vec(any::<u8>(), 0..120)) {
        if let Ok(server) = scram::Server::new(scram::Verifier::parse(&VERIFIER).unwrap(), &first, None, false) {
            prop_assert!(server.finish(&last, "u").is_err());
        }
        let mut client = scram::Client::new(scram::Secret::Password("secret".into()), None, false);
        prop_assert!(client.respond(&first).is_err());
        prop_assert!(client.finish(&last).is_err());
    }
}
