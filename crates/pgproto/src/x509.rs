//! The few fields of certificates (DER, RFC 5280) that are asked for here. Signatures are rustls' business.
//!
//! Invariant: what is not understood is `None`, and so fits nobody.

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const BOOLEAN: u8 = 0x01;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// UTF8String, PrintableString, IA5String.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
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
