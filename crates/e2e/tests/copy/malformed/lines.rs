//! Lines that are no lines: quotes, escapes, line ends, end markers, encodings, counts of columns.

use crate::{Case, repeat};

/// Options and data of a COPY into `t (k int, v text, n numeric(6,2), d date)`.
type Line = (&'static str, &'static [u8]);

const TEXT: &[Line] = &[
    ("", b""),
    ("", b"\n"),
    ("", b"\n\n"),
    ("", b"1\ta\t1\t\\N\n\n"),
    ("", b"1\n"),
    ("", b"1\ta\n2\tb\t1\t\\N\n"),
    ("", b"1\ta\t1\t\\N\t\n"),
    ("", b"1\ta\t1\t\\N\textra\tmore\n"),
    ("", b"1\ta\t1\t\\N\n2\tb\t1"),
    ("", b"1\ta\t1\t\\N\n2\tb\t1\t\\N\t"),
    ("", b"\t\t\t\n"),
    ("", b"\\N\t\\N\t\\N\t\\N\n\\N\n"),
    ("", b"1\ta\t1\t\\N\\N\n"),
    ("", b"1\ta\t1\t\\n\n"),
    ("", b"\\1\ta\t1\t\\N\n"),
    ("", b"1\ta\\\n2\tb\t1\t\\N\n"),
    ("", b"1\ta\t1\t\\N\\"),
    ("", b"1\ta\\"),
    ("", b"1\ta\\\t1\t\\N\n"),
    ("", b"1\t\\x\\x4\\x411\\0\t1\t\\N\n"),
    ("", b"1\t\\000\t1\t\\N\n"),
    ("", b"1\t\\x00\t1\t\\N\n"),
    ("", b"1\t\\377\t1\t\\N\n"),
    ("", b"1\t\\xc3\\xa4\\303\\244\t1\t\\N\n"),
    ("", b"1\t\\xc3\t1\t\\N\n"),
    ("", b"1\ta\0b\t1\t\\N\n"),
    ("", b"1\ta\t1\t\\N\n2\t\0\n"),
    ("", b"1\t\xff\t1\t\\N\n"),
    ("", b"1\t\xc3\n2\tb\t1\t\\N\n"),
    ("", b"1\ta\t1\t\\N\n2\t\xe2\x82"),
    ("", b"x\ta\t1\t\\N\n2\t\xed\xa0\x80\t1\t\\N\n"),
    ("", b"1\t\xf4\x90\x80\x80\t1\t\\N\n"),
    ("", b"1\t\xc0\x80\t1\t\\N\n"),
    ("", b"1\ta\t1\t\\N\n2\t\xfe\xff\t1\t\\N\n"),
    ("", b"\xef\xbb\xbf1\ta\t1\t\\N\n"),
    ("", b"\xff\xfe1\0\t\0a\0\n\0"),
    ("(HEADER)", b"\xef\xbb\xbfk\tv\n1\ta\t1\t\\N\n"),
    ("(HEADER)", b"k\tv\tn\td\xff\n1\ta\t1\t\\N\n"),
    ("(HEADER)", b"k"),
    ("(HEADER)", b""),
    ("(HEADER)", b"\\.\n1\ta\t1\t\\N\n"),
    ("(HEADER)", b"k\r\n1\ta\t1\t\\N\n"),
    ("(HEADER MATCH, ENCODING 'LATIN1')", b"k\tv\\x00\tn\td\n"),
    ("(HEADER MATCH, ENCODING 'LATIN1')", b"k\\xff\tv\tn\td\n"),
    ("(HEADER MATCH)", b""),
    ("(HEADER MATCH)", b"k\tv\tn\td\nx\ta\t1\t\\N\n"),
    ("(HEADER MATCH)", b"k\tv\td\tn\n"),
    ("(HEADER MATCH)", b"k\tv\tn\n"),
    ("(HEADER MATCH)", b"k\tv\tn\td\te\n"),
    ("(HEADER MATCH)", b"K\tv\tn\td\n"),
    ("(HEADER MATCH)", b"k\tv\t\\N\td\n"),
    ("(HEADER MATCH)", b" k\tv\tn\td\n"),
    ("(HEADER MATCH)", b"\xef\xbb\xbfk\tv\tn\td\n"),
    ("(HEADER MATCH)", b"k\t\\v\tn\td\n"),
    ("(HEADER MATCH)", b"k\t\\166\tn\td\n1\ta\t1\t\\N"),
    ("", b"1\ta\t1\t\\N\r\n2\tb\t1\t\\N\n"),
    ("", b"1\ta\t1\t\\N\n2\tb\t1\t\\N\r\n"),
    ("", b"1\ta\t1\t\\N\r2\tb\t1\t\\N\n"),
    ("", b"1\ta\t1\t\\N\r2\tb\t1\t\\N\r\n"),
    ("", b"1\ta\t1\t\\N\r2\tb\t1\t\\N\rx\r"),
    ("", b"1\ta\t1\t\\N\r\n2\tb\t1\t\\N\r3"),
    ("", b"1\ta\rb\t1\t\\N\n"),
    ("", b"1\ta\n\r2\tb\t1\t\\N\n"),
    ("", b"1\ta\t1\t\\N\r\nx\tb\t1\t\\N\r\n"),
    ("", b"1\ta\t1\t2020-01-01\r"),
    ("", b"1\ta\t1\t\\N\n\\.\nrubbish\n"),
    ("", b"1\ta\t1\t\\N\n\\.rubbish\n"),
    ("", b"1\ta\t1\t\\N\n\\."),
    ("", b"1\ta\t1\t\\N\n\\. \n"),
    ("", b"1\ta\t1\t\\N\n \\.\n"),
    ("", b"1\ta\t1\t\\N\n\\.\r\n"),
    ("", b"1\ta\t1\t\\N\r\n\\.\n"),
    ("", b"1\ta\t1\t\\N\r\n\\.\r"),
    ("", b"1\ta\t1\t\\N\r\n\\.\r\nmore"),
    ("", b"1\ta\t1\t\\N\r\\.\n"),
    ("", b"1\ta\t1\t\\N\\.\n2\tb\t1\t\\N\n"),
    ("", b"1\ta\\.b\t1\t\\N\n"),
    ("", b"\\.\n"),
    ("", b"\\.\\.\n"),
    ("", b"x\\.\n"),
    ("", b"1\ta\t1\t\\N\n\\.\n\xff\0"),
    ("(DELIMITER '|')", b"1|a|1|\\N|\n"),
    ("(DELIMITER '|')", b"1|a\\|b|1|\\N\n1|a|b|1|\\N\n"),
    ("(DELIMITER ',', NULL '')", b"1,,,\n,,,\nx,,,\n"),
    ("(NULL 'null')", b"null\tnull\tnull\tnull\n1\tNULL\tNULL\tNULL\n"),
    ("(NULL '\\N')", b"1\ta\t1\t\\\\N\n"),
    ("(NULL E'\\\\\\\\N')", b"1\ta\t1\t\\\\N\n"),
    ("(NULL 'x', DELIMITER 'X')", b"1XxXxXx\n1XxxXxXx\n"),
    ("(DELIMITER E'\\x01')", b"1\x01a\x011\x01\\N\n1\x01a\x011\n"),
    ("DELIMITER AS ' ' NULL AS '-'", b"1 a - -\n1 a  -\n"),
];

const CSV: &[Line] = &[
    ("", b""),
    ("", b"\n"),
    ("", b"1\n"),
    ("", b"1,a,1,,\n"),
    ("", b"1,a,1,,extra"),
    ("", b"1,a,1\n"),
    ("", b"1,a,1,\n\n2,b,1,\n"),
    ("", b",,,\n"),
    ("", b"\"\",\"\",\"\",\"\"\n"),
    ("", b"1,\"a,1,\n2,b,1,\n"),
    ("", b"1,\"a\"\",1,\n"),
    ("", b"1,a,1,\n2,\"b\nc\nd,1,\n3,c,1,\n4,d,1,\n"),
    ("", b"1,\"a\"b\"c\",1,\n2,b\"\"c,1,\n3,b\"c,1,\n"),
    ("", b"1,a\"b,1,\n2,c\"d,1,\n"),
    ("", b"1,\"a\" ,1,\nx,\" b\",1,\n"),
    ("", b"1, \"a,b\",1,\nx"),
    ("", b"1,'a,b',1,\n"),
    ("", b"1,\"a\nb\",1,\nx,\"c\n\nd\",1,\n"),
    ("", b"1,\"a\r\nb\",1,\nx,c,1,\n"),
    ("", b"1,\"a\rb\",1,\r\n2,\"a\nb\",1,\r\nx,c,1,\r\n"),
    ("", b"1,\"a\nb\",1,\r2,b,1,\rx,c,1,\r"),
    ("", b"1,\"a\nb\",1,x\n"),
    ("", b"\"1\n\",a,1,\n\"\nx\",a,1,\n"),
    ("", b"1,a,1,\r\n2,b,1,\n"),
    ("", b"1,a,1,\n2,b,1,\r\n"),
    ("", b"1,a,1,\r2,b,1,\n"),
    ("", b"1,a,1,\n2,b\rc,1,\n"),
    ("", b"1,\"\"a,1,\n2,a\"\",1,\nx,,,"),
    ("", b"1,\"a\",1,\"\n"),
    ("", b"\""),
    ("", b"\"\n"),
    ("", b"1,a,1,\"2020-01-01\"\"\"\n"),
    ("", b"1,a,1,\n\\.\nrubbish\n"),
    ("", b"1,a,1,\n\\.rubbish\n"),
    ("", b"1,a,1,\n\"\\.\"\n"),
    ("", b"1,\\.,1,\n2,\"\n\\.\n\",1,\n3,b,x,\n"),
    ("", b"\\.\n"),
    ("", b"\\."),
    ("", b"1,a,1,\r\n\\.\r\nx"),
    ("", b"1,a,1,\r\n\\.\nx"),
    ("", b"1,a,1,\n\\.\r\nx"),
    ("", b"1,a,1,\n\\.,b,1,\n"),
    ("", b"1,a,1,\\N\n"),
    ("", b"\\N,a,1,\n"),
    ("", b"1,\\x41\\,1,\n"),
    ("", b"1,a\0,1,\n"),
    ("", b"1,\"a\0\",1,\n"),
    ("", b"1,\"\xff\",1,\n"),
    ("", b"1,\"\xc3\",1,\n"),
    ("", b"1,\"a\n\xc3"),
    ("", b"1,a,1,\n2,\"x\ny\",1,\n3,\xe4,1,\n"),
    ("", b"\xef\xbb\xbf1,a,1,\n"),
    ("", b"\xef\xbb\xbf\"1\",a,1,\n"),
    ("", b"1,\"a\n\r\xff\",1,\n"),
    ("", b"1,\"a\r\r\0\",1,\n"),
    (", HEADER", b"\"k\r\n\r\xc3"),
    (", HEADER", b"\xef\xbb\xbfk,v,n,d\n1,a,1,\n"),
    (", HEADER", b"\"k\nv\",n,d\n1,a,1,\nx,a,1,\n"),
    (", HEADER", b"\"k,v,n,d\n1,a,1,\nx,a,1,\n"),
    (", HEADER", b"k,v,n,d\r\n1,a,1,\n"),
    (", HEADER", b"k,v,n,d"),
    (", HEADER", b"\n1,a,1,\nx"),
    (", HEADER MATCH", b"k,v,n,d\n1,a,1,31-Feb\n"),
    (", HEADER MATCH", b"k,v,n,D\n"),
    (", HEADER MATCH", b"k,\"v\",n,\"d\"\n1,a,1,\n"),
    (", HEADER MATCH", b"k,,n,d\n"),
    (", HEADER MATCH", b"k,\"\",n,d\n"),
    (", HEADER MATCH", b"k;v;n;d\n"),
    (", HEADER MATCH", b"k,v,n\n1,a,1\n"),
    (", HEADER MATCH", b"k,v,n,d,\n"),
    (", HEADER MATCH", b"\"k"),
    (", HEADER MATCH", b"\xef\xbb\xbfk,v,n,d\n1,a,1,\n"),
    (", HEADER MATCH, NULL 'v'", b"k,v,n,d\n1,a,1,\n"),
    (", DELIMITER ';'", b"1,a,1,\n"),
    (", DELIMITER ';'", b"1;a,b;1,5;\n"),
    (", DELIMITER E'\\t'", b"1\ta\t1\t\n2,a\t1\t\n"),
    (", QUOTE ''''", b"1,'a\"b',1,\n2,'it''s,1,\n"),
    (", ESCAPE '\\'", b"1,\"a\\\"b\",1,\n2,\"c\\\\\",1,\n3,\"d\\\",1,\n"),
    (", ESCAPE '\\'", b"1,\"a\"\"b\",1,\nx,\"a\\b\",1,\n"),
    (", QUOTE '$', ESCAPE '@'", b"1,$a@$b@@$,1,\n2,$a@b$,x,\n"),
    (", NULL 'NULL'", b"NULL,NULL,NULL,NULL\n1,\"NULL\",1,NULL\n2,a,,NULL\n"),
    (", NULL '\\N'", b"1,\\N,1,\\N\n2,a,1,\n"),
    (", FORCE_NULL (n, d)", b"1,a,\"\",\"\"\n2,a,\"x\",\n"),
    (", FORCE_NOT_NULL (v)", b"1,,1,\n2,,,31-Feb\n"),
    (", FORCE_NOT_NULL (d)", b"1,a,1,\n"),
    (", FORCE_NOT_NULL (n), FORCE_NULL (n)", b"1,a,\"\",\n2,a,,\n"),
    (", FORCE_NOT_NULL (k)", b"1,a,1,\n,a,1,\n"),
];

pub(crate) fn cases() -> Vec<Case> {
    let text = TEXT.iter().map(|(options, data)| ((*options).to_owned(), *data));
    let csv = CSV.iter().map(|(options, data)| (format!("(FORMAT csv{options})"), *data));
    let mut cases: Vec<Case> = text
        .chain(csv)
        .enumerate()
        .map(|(turn, (options, data))| {
            let mut case = Case::new("t", format!("COPY t FROM STDIN {options}"), data);
            case.frame_bytes = [usize::MAX, 1, 3][turn % 3];
            case
        })
        .collect();
    cases.extend(late());
    cases.extend(huge());
    cases.extend(encodings());
    cases.extend(foreign_headers());
    cases.extend(markers_in_files());
    cases
}

/// Faults behind many good rows; of several the first counts.
fn late() -> Vec<Case> {
    let faults: &[&str] = &[
        "x\ta\t1\t\\N\n",
        "1\ta\n",
        "1\ta\t1\t31-Feb\n",
        "1\ta\t99999\t\\N\n",
        "1\ta\t1\t\\N\t5\n",
        "1\ta\t1\t\\N\r\n",
        "1\ta\0\t1\t\\N\n",
        "\\.x\n",
        "1\ta\t1\t2020-02-30\n2\tb\t1\t2020-02-31\n3\tc\tx\t\\N\n4\td\n",
        "1\ta\t1\t\\N\t\n2\tb\tx\t\\N\n",
    ];
    let good = |from: usize| repeat(from..from + 1500, |i| format!("{i}\tvalue {i}\t{}\t2020-01-01\n", i % 100));
    let case = |(turn, fault): (usize, &&str)| {
        let mut case = Case::new("t", "COPY t FROM STDIN", [good(1), (*fault).to_owned(), good(9000)].concat());
        case.frame_bytes = [8192, 65536, 1000][turn % 3];
        case
    };
    faults.iter().enumerate().map(case).collect()
}

/// Fields and lines of a megabyte, good and bad.
fn huge() -> Vec<Case> {
    let wide = "ä,\"x".repeat(200_000);
    let quoted = "ä,\"x".repeat(50_000).replace('"', "\"\"");
    let digits = "9".repeat(1 << 20);
    let texts = [
        ("", format!("1\t{wide}\t1\t\\N\nx\ta\t1\t\\N\n")),
        ("", format!("1\t{wide}\t1\t\\N\n2\t{wide}\n")),
        ("", format!("{digits}\ta\t1\t\\N\n")),
        ("", format!("1\ta\t{digits}\t\\N\n")),
        ("", format!("1\ta\t0.{digits}\t\\N\n2\ta\t1\t{digits}\n")),
        ("(FORMAT csv)", format!("1,\"{quoted}\",1,\n1,\"{quoted}\"x,1,31-Feb\n")),
        ("(FORMAT csv)", format!("1,\"{quoted},1,\n2,b,1,\n")),
        ("(FORMAT csv)", format!("1,a,1,{quoted}\n")),
    ];
    texts
        .into_iter()
        .map(|(options, data)| {
            let mut case = Case::new("t", format!("COPY t FROM STDIN {options}"), data);
            case.frame_bytes = 50_000;
            case
        })
        .collect()
}

/// Encoding, whether it is the session's or an option, and bytes for a text.
fn encodings() -> Vec<Case> {
    let texts: &[(&str, &[u8])] = &[
        ("LATIN1", b"\xe4\x80"),
        ("LATIN1", b"\0"),
        ("LATIN9", b"\xa4"),
        ("WIN1252", b"\x81"),
        ("WIN1251", b"\x98"),
        ("KOI8R", b"\xc1"),
        ("EUC_JP", b"\xa4"),
        ("EUC_JP", b"\xa4\xa2\xff"),
        ("EUC_JP", b"\x8e\x41"),
        ("EUC_KR", b"\xb0\xa1\xb0"),
        ("EUC_KR", b"\xc9\xfe"),
        ("EUC_CN", b"\xb0\x20"),
        ("SJIS", b"\x95\x5c\x83\x7c"),
        ("SJIS", b"\x83"),
        ("SJIS", b"\xfd"),
        ("BIG5", b"\xa4\x5c"),
        ("BIG5", b"\xff"),
        ("GBK", b"\x81\x5c\x80"),
        ("GB18030", b"\x81\x30\x81\x30"),
        ("GB18030", b"\x81\x30\x81"),
        ("UHC", b"\x81\x41\xff"),
        ("SQL_ASCII", b"\xff"),
        ("SQL_ASCII", b"\xc3\xa4"),
        ("MULE_INTERNAL", b"\x81\xe4"),
        ("UTF8", b"\xc3\x28"),
    ];
    let mut cases = Vec::new();
    for (turn, (encoding, bytes)) in texts.iter().enumerate() {
        for (tail, is_option) in [(&b"\t1\t\\N"[..], true), (b"\t1\t\\N", false), (b"\tx\t\\N", turn % 2 == 0)] {
            let data = [b"1\ta\t1\t\\N\n2\t", *bytes, tail, b"\n3\tc\t1\t\\N\n"].concat();
            let option = if is_option { format!("(ENCODING '{encoding}')") } else { String::new() };
            let mut case = Case::new("t", format!("COPY t FROM STDIN {option}"), data);
            if !is_option {
                case.settings.push(format!("client_encoding = '{encoding}'"));
            }
            cases.push(case);
        }
        if turn == 0 {
            cases.extend(two_encodings());
        }
        // As the key of a table, and beside a type that travels as it came.
        let data = [b"1,\"", *bytes, b"\",ok\n2,", *bytes, b",glad\n"].concat();
        cases.push(Case::new("felt", format!("COPY felt FROM STDIN (FORMAT csv, ENCODING '{encoding}')"), data));
    }
    cases
}

/// Header lines and names in other encodings than the server's.
fn foreign_headers() -> Vec<Case> {
    let inputs: &[(&str, &str, &str, &[u8])] = &[
        ("t", "EUC_TW", "HEADER", b"k,\xf0\x8f,n,d\n1,a,1,\n"),
        ("t", "EUC_TW", "HEADER MATCH", b"k,\xf0\x8f,n,d\n1,a,x,\n"),
        ("t", "EUC_JP", "HEADER MATCH", b"k,v\xa4\xa2,n,d\n1,a,1,\n"),
        ("t", "LATIN1", "HEADER", b"k,v\xe4,n,d\n1,a,x,\n"),
        ("umlauts", "LATIN1", "HEADER MATCH", b"k,gr\xf6\xdfe\n1,\xe4\n"),
        ("umlauts", "LATIN1", "HEADER", b"k,v\n1,\xe4\nx,\xe4\n"),
        ("t", "SJIS", "HEADER", b"k,v\n1,\x83\x5c\n"),
        ("t", "SHIFT_JIS_2004", "HEADER", b"k,v\n1,\x83\\,x,\n"),
        ("umlauts", "WIN1252", "HEADER", b"k,v\n1,\x81\n"),
    ];
    let case = |(table, encoding, header, data): &(&str, &str, &str, &[u8])| {
        let mut case = Case::new(table, format!("COPY {table} FROM STDIN (FORMAT csv, {header})"), data);
        case.settings.push(format!("client_encoding = '{encoding}'"));
        case
    };
    inputs.iter().map(case).collect()
}

/// In a file a marker behind a row's text does not end the input, but behind a header's it does.
fn markers_in_files() -> Vec<Case> {
    let inputs: &[&[u8]] =
        &[b"k\tv\tn\td\\.\n1\ta\t1\t\\N\n", b"k\\.\n\\.\n", b"k\tv\n1\ta\t1\t\\N\\.\n2\tb\t1\t\\N\n"];
    let case = |data| Case { from_file: true, ..Case::new("t", "COPY t FROM STDIN (HEADER)", data) };
    inputs.iter().map(case).collect()
}

/// The option's encoding is another than the session's.
fn two_encodings() -> Vec<Case> {
    let inputs: &[(&str, &str, &[u8])] = &[
        ("LATIN1", "UTF8", "1\tä\t1\t\\N\n2\tß€\t1\t\\N\n".as_bytes()),
        ("LATIN1", "UTF8", "1\tä\t1\t\\N\n2\tß\tx\t\\N\n".as_bytes()),
        ("LATIN1", "UTF8", "1\tä\t1\t\\N\n2\tß\t1\tß\n".as_bytes()),
        ("LATIN1", "UTF8", "1\tä\t1\t\\N\n2\tßß\n".as_bytes()),
        ("LATIN1", "UTF8", "1\tä\t1\t\\N\nß\tß\t1\t\\N\n".as_bytes()),
        ("UTF8", "LATIN1", b"1\t\xe4\t1\t\\N\n2\t\xdf\xe4\n"),
        ("UTF8", "LATIN1", b"1\t\xe4\t1\t\\N\n\xdf\t\xdf\t1\t\\N\n"),
        ("EUC_JP", "LATIN1", b"1\ta\t1\t\\N\n2\t\xe4\t\xe4\t\\N\n"),
    ];
    let case = |(session, option, data): &(&str, &str, &[u8])| {
        let mut case = Case::new("t", format!("COPY t FROM STDIN (ENCODING '{option}')"), data);
        case.settings.push(format!("client_encoding = '{session}'"));
        case
    };
    inputs.iter().map(case).collect()
}
