//! Binary COPYs with something wrong in the header, in the counts and lengths, in the values, at the end.

use crate::Case;

const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const END: &[u8] = b"\xff\xff";

/// A tuple of these values.
fn tuple(values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut out = (values.len() as i16).to_be_bytes().to_vec();
    for value in values {
        out.extend_from_slice(&value.map_or(-1, |bytes| bytes.len() as i32).to_be_bytes());
        out.extend_from_slice(value.unwrap_or_default());
    }
    out
}

/// 1.5 as `numeric_send` gives it.
const NUMERIC: &[u8] = b"\0\x02\0\0\0\0\0\x01\0\x01\x13\x88";

/// A row of `t`.
fn row(key: i32) -> Vec<u8> {
    tuple(&[Some(&key.to_be_bytes()), Some(b"a"), Some(NUMERIC), None])
}

fn numeric(words: [u16; 5]) -> Vec<u8> {
    words.into_iter().flat_map(u16::to_be_bytes).collect()
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |table: &str, columns: &str, data: Vec<u8>| {
        let mut case = Case::new(table, format!("COPY {table} {columns} FROM STDIN (FORMAT binary)"), data);
        case.frame_bytes = [usize::MAX, 1, 5][cases.len() % 3];
        cases.push(case);
    };
    headers().into_iter().for_each(|data| add("t", "", data));
    frames().into_iter().for_each(|data| add("t", "", data));
    for values in values() {
        let bad = tuple(&[Some(&values.0), Some(&values.1), Some(&values.2), values.3.as_deref()]);
        add("t", "", [HEADER, &row(7), &bad, &row(8), END].concat());
    }
    let key = |bytes: &[u8]| [HEADER, &tuple(&[Some(&1i32.to_be_bytes()), Some(bytes)]), END].concat();
    // Keys of the wrong length: int2, int4, int8, oid, bool, "char", name, date, timestamp(tz), time, interval, …
    for type_number in 0..23 {
        for bytes in [&b""[..], b"\x01", b"\0\0\0", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff"] {
            add(&format!("key{type_number}"), "(k, x)", key(bytes));
        }
    }
    add("strict", "(k, v)", [HEADER, b"\0\x02\0\0\0\x04\0\0\0\x01\0\0\0\x09too long"].concat());
    add("strict", "(v, k)", [HEADER, b"\0\x02\0\0\0\x08too long\0\0\0\x09"].concat());
    add("felt", "(m, k)", [HEADER, b"\0\x02\0\0\0\x04glad\0\0\0\x09"].concat());
    add("felt", "(m, k)", [HEADER, b"\0\x02\0\0\0\x04glad\0\0\0\x01\0"].concat());
    add("strict", "(k, v)", key(b"too long for v"));
    add("strict", "(k, v)", [HEADER, &tuple(&[Some(&1i32.to_be_bytes()), None]), END].concat());
    add("strict", "(k, v)", [HEADER, &tuple(&[None, Some(b"v")]), END].concat());
    add("felt", "(k, m)", key(b"glad"));
    add("felt", "(k, m)", key(b"ok"));
    cases
}

fn headers() -> Vec<Vec<u8>> {
    let with = |flags: &[u8; 4], length: &[u8; 4], more: &[u8]| {
        [b"PGCOPY\n\xff\r\n\0", &flags[..], length, more, &row(1), END].concat()
    };
    vec![
        b"".to_vec(),
        b"PGCOPY".to_vec(),
        b"1\ta\t1\t\\N\n".to_vec(),
        b"PGCOPY\r\n\xff\r\n\0\0\0\0\0\0\0\0\0\xff\xff".to_vec(),
        HEADER[..11].to_vec(),
        HEADER[..13].to_vec(),
        HEADER[..17].to_vec(),
        HEADER.to_vec(),
        with(&[0, 1, 0, 0], &[0; 4], b""),
        with(&[0, 2, 0, 0], &[0; 4], b""),
        with(&[0xff; 4], &[0; 4], b""),
        with(&[0, 0, 0, 1], &[0; 4], b""),
        with(&[0, 0, 0xff, 0xff], &[0; 4], b""),
        with(&[0; 4], &[0, 0, 0, 3], b"abc"),
        with(&[0; 4], &[0, 0, 1, 0], b"abc"),
        with(&[0; 4], &[0x7f, 0xff, 0xff, 0xff], b""),
        with(&[0; 4], &[0xff; 4], b""),
    ]
}

/// Counts, lengths, the trailer.
fn frames() -> Vec<Vec<u8>> {
    let pieces: &[&[u8]] = &[
        b"",
        b"\xff",
        b"\0",
        b"\0\0",
        b"\0\x03",
        b"\0\x05",
        b"\x7f\xff",
        b"\xff\xfe",
        b"\x80\0",
        b"\0\x04",
        b"\0\x04\0\0",
        b"\0\x04\0\0\0\x04",
        b"\0\x04\0\0\0\x04\0\0",
        b"\0\x04\0\0\0\x04\0\0\0\x01\xff\xff\xff\xfe",
        b"\0\x04\xff\xff\xff\xfe",
        b"\0\x04\x80\0\0\0",
        b"\0\x04\x7f\xff\xff\xff",
        b"\0\x04\x3f\xff\xff\xff",
        b"\0\x04\x3f\xff\xff\xfe",
        b"\0\x04\0\0\0\x04\0\0\0\x01\x3f\xff\xff\xff",
        // Wrong values before the cut.
        b"\0\x04\0\0\0\x02\0\x01\0\0",
        b"\0\x04\0\0\0\x04\0\0\0\x01\0\0\0\x01\xff\0\0\0\x0c\0",
        b"\0\x04\0\0\0\x04\0\0\0\x01\0\0\0\x01\xff\xff\xff\xff\xfe",
        b"\0\x04\0\0\0\x04\0\0\0\x01\0\0\0\x02a\0\x7f\xff\xff\xff",
        b"\0\x04\0\0\0\x04\0\0\0\x01\xff\xff\xff\xff\0\0\0\x01a\0\0",
        b"\0\x04\xff\xff\xff\xff\0\0\0\x01a\xff\xff\xff\xff\0\0\0\x04\0",
        b"\xff\xff\0",
        b"\xff\xff\xff\xff",
        b"\xff\xff\n",
    ];
    let mut all: Vec<Vec<u8>> = pieces.iter().map(|piece| [HEADER, &row(1), &row(2), piece].concat()).collect();
    all.push([HEADER, &row(1), END, &row(2)].concat());
    all.push([HEADER, HEADER, &row(1), END].concat());
    all.push([HEADER, &row(1), HEADER, &row(2), END].concat());
    all
}

struct Values(Vec<u8>, Vec<u8>, Vec<u8>, Option<Vec<u8>>);

/// Values of the four columns, one of them odd.
fn values() -> Vec<Values> {
    let good = || Values(1i32.to_be_bytes().to_vec(), b"a".to_vec(), NUMERIC.to_vec(), None);
    let mut all = Vec::new();
    for key in [&b""[..], b"\0", b"\0\0\0\x01\0", b"1234567"] {
        all.push(Values { 0: key.to_vec(), ..good() });
    }
    for text in [&b"\0"[..], b"a\0b", b"\xff", b"\xc3", b"ok\xe2\x82", b""] {
        all.push(Values { 1: text.to_vec(), ..good() });
    }
    let numerics = [
        vec![],
        b"\0\x01".to_vec(),
        numeric([1, 0, 0, 0, 10000]),
        numeric([1, 0, 0, 0, 0xffff]),
        numeric([1, 0, 0x1234, 0, 1]),
        numeric([1, 0, 0, 0x4000, 1]),
        numeric([2, 0, 0, 0, 1]),
        numeric([0xffff, 0, 0, 0, 1]),
        numeric([1, 0, 0xc000, 0, 1]),
        numeric([1, 1, 0, 0, 9999]),
        numeric([1, 0xffff, 0, 2, 99]),
        numeric([1, 0xffff, 0, 4, 9999]),
        [NUMERIC, b"x"].concat(),
    ];
    all.extend(numerics.into_iter().map(|value| Values { 2: value, ..good() }));
    for date in
        [&b""[..], b"\0", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\x7f\xff\xff\xfe", b"\x80\0\0\x01", b"\0\0\0\0\0"]
    {
        all.push(Values { 3: Some(date.to_vec()), ..good() });
    }
    all
}
