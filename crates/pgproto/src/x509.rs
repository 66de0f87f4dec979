//! The few fields of certificates (DER, RFC 5280) that are asked for here. Signatures are rustls' business.
//!
//! Invariant: what is not understood is `None`, and so fits nobody.

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const BOOLEAN: u8 = 0x01;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const UTF8: u8 = 0x0c;
/// UTF8String, PrintableString, IA5String.
const TEXTS: [u8; 3] = [UTF8, 0x13, 0x16];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];

/// Tag and content of the first element, and what comes after it.
pub(crate) fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        short @ 0..0x80 => (usize::from(short), rest),
        long => {
            let (length, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (length.iter().try_fold(0_usize, |sum, byte| Some(sum.checked_mul(256)? + usize::from(*byte)))?, rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Its content and the rest, if it has this tag.
fn expect(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    element(der).and_then(|(found, content, rest)| (found == tag).then_some((content, rest)))
}

/// All elements, one after the other.
fn elements(mut der: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let mut found = Vec::new();
    while !der.is_empty() {
        let (tag, content, rest) = element(der)?;
        found.push((tag, content));
        der = rest;
    }
    Some(found)
}

/// The fields of the signed part, without its version.
fn fields(certificate: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let (certificate, _) = expect(certificate, SEQUENCE)?;
    let (signed, _) = expect(certificate, SEQUENCE)?;
    let mut fields = elements(signed)?;
    if fields.first()?.0 == VERSION {
        fields.remove(0);
    }
    Some(fields)
}

/// The subject's common name: the one there is. A name with a NUL in it would mean something else to others.
pub fn common_name(certificate: &[u8]) -> Option<String> {
    // serialNumber, signature, issuer, validity, subject.
    let (tag, subject) = *fields(certificate)?.get(4)?;
    let mut names = Vec::new();
    for (tag, set) in (tag == SEQUENCE).then(|| elements(subject))?? {
        for (tag, attribute) in (tag == SET).then(|| elements(set))?? {
            let (kind, value) = (tag == SEQUENCE).then(|| expect(attribute, OBJECT_ID))??;
            if kind == COMMON_NAME {
                names.push(element(value)?);
            }
        }
    }
    match names[..] {
        [(tag, text, [])] if TEXTS.contains(&tag) && !text.contains(&0) => String::from_utf8(text.to_vec()).ok(),
        _ => None,
    }
}

/// The subject as RFC 2253 writes it, in PostgreSQL's words (`clientname=DN`): the last part comes first. A name with a NUL in it
/// would mean something else to others.
pub fn distinguished_name(certificate: &[u8]) -> Option<String> {
    // serialNumber, signature, issuer, validity, subject.
    let (tag, subject) = *fields(certificate)?.get(4)?;
    (tag == SEQUENCE).then(|| reversed_name(subject))?
}

fn reversed_name(der: &[u8]) -> Option<String> {
    let mut parts = Vec::new();
    for (tag, set) in elements(der)?.into_iter().rev() {
        let attributes = (tag == SET).then(|| attributes(set))??;
        let has_nul = attributes.iter().any(|(_, value)| value.contains('\0'));
        let texts = attributes.iter().rev().map(|(name, value)| format!("{name}={}", in_ascii(&escaped(value))));
        parts.push((!has_nul).then(|| texts.collect::<Vec<_>>().join("+"))?);
    }
    (!parts.is_empty()).then(|| parts.join(","))
}

/// The owner of a certificate, in PostgreSQL's words (`X509_NAME_to_cstring`), as far as `pg_stat_ssl` has place for them.
#[allow(missing_docs)]
pub struct Names {
    pub subject: String,
    pub issuer: String,
    /// A decimal number.
    pub serial: String,
}

impl Names {
    /// Reads a certificate; `None` if it is not understood.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let fields = fields(certificate)?;
        // serialNumber, signature, issuer, validity, subject.
        let (_, serial) = *fields.first()?;
        let names = Self { subject: name(fields.get(4)?.1)?, issuer: name(fields.get(2)?.1)?, serial: decimal(serial) };
        Some(names)
    }
}

/// The last byte of ids below 2.5.4, and OpenSSL's short names.
const ATTRIBUTES: [(u8, &str); 20] = [
    (3, "CN"),
    (4, "SN"),
    (5, "serialNumber"),
    (6, "C"),
    (7, "L"),
    (8, "ST"),
    (9, "street"),
    (10, "O"),
    (11, "OU"),
    (12, "title"),
    (13, "description"),
    (15, "businessCategory"),
    (17, "postalCode"),
    (41, "name"),
    (42, "GN"),
    (43, "initials"),
    (44, "generationQualifier"),
    (46, "dnQualifier"),
    (65, "pseudonym"),
    (97, "organizationIdentifier"),
];
/// Whole ids of others.
const OTHER_ATTRIBUTES: [(&[u8], &str); 3] = [
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x01], "emailAddress"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x19], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x01], "UID"),
];
/// `NAMEDATALEN` without the byte that ends the text.
const SHOWN_BYTES_MAX: usize = 63;

/// `/O=…/CN=…`.
fn name(der: &[u8]) -> Option<String> {
    let mut text = String::new();
    for (_, set) in elements(der)? {
        for (name, value) in attributes(set)? {
            text += &format!("/{name}={}", escaped(value));
        }
    }
    let end = (0..=text.len().min(SHOWN_BYTES_MAX)).rev().find(|at| text.is_char_boundary(*at))?;
    text.truncate(end);
    Some(text)
}

/// Names and values of one part of a name.
fn attributes(set: &[u8]) -> Option<Vec<(&'static str, &str)>> {
    let attribute = |(tag, attribute)| {
        let (kind, value) = (tag == SEQUENCE).then(|| expect(attribute, OBJECT_ID))??;
        let short = match kind {
            [0x55, 0x04, last] => ATTRIBUTES.iter().find(|(id, _)| id == last).map(|(_, name)| *name),
            other => OTHER_ATTRIBUTES.iter().find(|(id, _)| *id == other).map(|(_, name)| *name),
        };
        let (tag, text, []) = element(value)? else { return None };
        let is_text = TEXTS.contains(&tag) && (tag == UTF8 || text.is_ascii());
        Some((short?, std::str::from_utf8(text).ok().filter(|_| is_text)?))
    };
    elements(set)?.into_iter().map(attribute).collect()
}

/// Each byte of what is not ASCII by its number.
fn in_ascii(text: &str) -> String {
    let byte = |byte: u8| if byte.is_ascii() { char::from(byte).to_string() } else { format!("\\{byte:02X}") };
    text.bytes().map(byte).collect()
}

/// As RFC 2253 writes a value.
fn escaped(value: &str) -> String {
    let last = value.chars().count().saturating_sub(1);
    let mut text = String::new();
    for (at, character) in value.chars().enumerate() {
        let is_special = matches!(character, ',' | '+' | '"' | '\\' | '<' | '>' | ';')
            || at == 0 && matches!(character, '#' | ' ')
            || at == last && character == ' ';
        match character {
            control if control.is_ascii_control() => text += &format!("\\{:02X}", u32::from(control)),
            character => text.extend(is_special.then_some('\\').into_iter().chain([character])),
        }
    }
    text
}

/// An unsigned integer of any length.
fn decimal(bytes: &[u8]) -> String {
    let mut digits = vec![0_u8];
    for byte in bytes {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            carry += u32::from(*digit) * 256;
            *digit = (carry % 10) as u8;
            carry /= 10;
        }
        while carry > 0 {
            digits.push((carry % 10) as u8);
            carry /= 10;
        }
    }
    digits.iter().rev().map(|digit| char::from(b'0' + digit)).collect()
}

/// The common name of a certificate that has no alternative names.
pub(crate) fn only_common_name(certificate: &[u8]) -> Option<String> {
    match has_alternative_names(certificate)? {
        true => None,
        false => common_name(certificate),
    }
}

fn has_alternative_names(certificate: &[u8]) -> Option<bool> {
    Some(extensions(certificate)?.iter().any(|(kind, _)| *kind == ALTERNATIVE_NAMES))
}

/// May it sign others? A root without extensions was made when that was not said yet (`check_ca` of OpenSSL).
pub(crate) fn is_authority(certificate: &[u8]) -> bool {
    let says_so = || {
        let extensions = extensions(certificate)?;
        if extensions.is_empty() {
            let fields = fields(certificate)?;
            return Some(fields.get(2)? == fields.get(4)?);
        }
        let (_, rest) = extensions.into_iter().find(|(kind, _)| *kind == BASIC_CONSTRAINTS)?;
        // It may be marked as critical.
        let (_, value) = elements(rest)?.pop()?;
        Some(expect(expect(value, SEQUENCE)?.0, BOOLEAN)?.0 == [0xff])
    };
    says_so().unwrap_or(false)
}

/// Their kinds, and what comes after these.
fn extensions(certificate: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let fields = fields(certificate)?;
    let Some((_, extensions)) = fields.iter().find(|(tag, _)| *tag == EXTENSIONS) else { return Some(Vec::new()) };
    elements(expect(extensions, SEQUENCE)?.0)?.into_iter().map(|(_, extension)| expect(extension, OBJECT_ID)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_are_decimal() {
        assert_eq!(
            [&[0][..], &[9], &[1, 0], &[0, 0xff, 0xff, 0xff, 0xff]].map(decimal),
            ["0", "9", "256", "4294967295"]
        );
        assert_eq!(decimal(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), "1208925819614629174706176");
    }

    #[test]
    fn names_are_written_as_openssl_writes_them() {
        // SEQUENCE of a SET with O = "A, B" and one with CN = " x".
        let der = [
            &[0x31, 13, 0x30, 11, OBJECT_ID, 3, 0x55, 4, 10, 0x0c, 4][..],
            b"A, B",
            &[0x31, 11, 0x30, 9, OBJECT_ID, 3, 0x55, 4, 3, 0x13, 2],
            b" x",
        ];
        assert_eq!(name(&der.concat()).unwrap(), "/O=A\\, B/CN=\\ x");
        assert_eq!(reversed_name(&der.concat()).unwrap(), "CN=\\ x,O=A\\, B");
        // In one SET, UTF-8; with a NUL in it; of a kind that is not known.
        let attribute = |kind: u8, text: &[u8]| {
            [&[0x30, 7 + text.len() as u8, OBJECT_ID, 3, 0x55, 4, kind, UTF8, text.len() as u8][..], text].concat()
        };
        let set = |attributes: &[u8]| [&[SET, attributes.len() as u8][..], attributes].concat();
        let both = set(&[attribute(3, "Ж+".as_bytes()), attribute(97, b"x\n")].concat());
        assert_eq!(reversed_name(&both).unwrap(), "organizationIdentifier=x\\0A+CN=\\D0\\96\\+");
        for wrong in [set(&attribute(3, b"ann\0x")), set(&attribute(99, b"ann")), both[..9].to_vec(), Vec::new()] {
            assert_eq!(reversed_name(&wrong), None);
        }
    }
}
