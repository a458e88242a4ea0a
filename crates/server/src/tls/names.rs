//! Names of certificates as text: by RFC 2253, and in the older form with slashes, both as OpenSSL writes them.

use std::fmt::Write;
use x509_parser::asn1_rs::Any;
use x509_parser::asn1_rs::Tag;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// OpenSSL's short names of attributes.
const SHORT: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.14", "searchGuide"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.16", "postalAddress"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.18", "postOfficeBox"),
    ("2.5.4.19", "physicalDeliveryOfficeName"),
    ("2.5.4.20", "telephoneNumber"),
    ("2.5.4.23", "facsimileTelephoneNumber"),
    ("2.5.4.31", "member"),
    ("2.5.4.32", "owner"),
    ("2.5.4.34", "seeAlso"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.45", "x500UniqueIdentifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.51", "houseIdentifier"),
    ("2.5.4.54", "dmdName"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.72", "role"),
    ("2.5.4.97", "organizationIdentifier"),
    ("2.5.4.98", "c3"),
    ("2.5.4.99", "n3"),
    ("2.5.4.100", "dnsName"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
    ("1.2.840.113549.1.9.8", "unstructuredAddress"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.3", "mail"),
    ("0.9.2342.19200300.100.1.4", "info"),
    ("0.9.2342.19200300.100.1.5", "favouriteDrink"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.3.6.1.4.1.311.60.2.1.1", "jurisdictionL"),
    ("1.3.6.1.4.1.311.60.2.1.2", "jurisdictionST"),
    ("1.3.6.1.4.1.311.60.2.1.3", "jurisdictionC"),
    ("1.3.6.1.4.1.311.17.1", "CSPName"),
    ("1.2.643.3.131.1.1", "INN"),
    ("1.2.643.100.1", "OGRN"),
    ("1.2.643.100.3", "SNILS"),
];

/// The name as RFC 2253 has it: the last attribute first.
#[must_use]
pub fn rfc2253(name: &X509Name<'_>) -> String {
    let mut out = String::new();
    let sets: Vec<_> = name.iter_rdn().collect();
    for set in sets.into_iter().rev() {
        let mut between = match out.is_empty() {
            true => "",
            false => ",",
        };
        let attributes: Vec<_> = set.iter().collect();
        for attribute in attributes.into_iter().rev() {
            out.push_str(between);
            between = "+";
            append(attribute, &mut out);
        }
    }
    out
}

fn append(attribute: &AttributeTypeAndValue<'_>, out: &mut String) {
    let (number, short) = kind(attribute);
    let value = attribute.attr_value();
    let text = characters(value.header.tag(), value.data).filter(|_| short.is_some());
    out.push_str(short.unwrap_or(&number));
    out.push('=');
    match text {
        Some(text) => escape(&text, out),
        None => dump(value, out),
    }
}

/// An attribute's number, and its short name if it has one.
fn kind(attribute: &AttributeTypeAndValue<'_>) -> (String, Option<&'static str>) {
    let number = attribute.attr_type().to_id_string();
    let short = SHORT.iter().find(|(known, _)| *known == number);
    let short = short.map(|(_, short)| *short);
    (number, short)
}

/// The characters of a string of one of ASN.1's kinds; `None` for what is none.
fn characters(tag: Tag, data: &[u8]) -> Option<Vec<char>> {
    let wide = |size: usize| {
        let all = data.chunks(size);
        let number = |piece: &[u8]| {
            piece
                .iter()
                .fold(0, |sum, &byte| sum << 8 | u32::from(byte))
        };
        all.map(|piece| char::from_u32(number(piece)).filter(|_| piece.len() == size))
            .collect::<Option<Vec<char>>>()
    };
    match tag {
        Tag::Utf8String => Some(std::str::from_utf8(data).ok()?.chars().collect()),
        Tag::BmpString => wide(2),
        Tag::UniversalString => wide(4),
        Tag::NumericString
        | Tag::PrintableString
        | Tag::TeletexString
        | Tag::Ia5String
        | Tag::VisibleString
        | Tag::UtcTime
        | Tag::GeneralizedTime => Some(data.iter().map(|&byte| char::from(byte)).collect()),
        _ => None,
    }
}

fn escape(text: &[char], out: &mut String) {
    let last = text.len().saturating_sub(1);
    let mut bytes = [0; 4];
    for (place, &character) in text.iter().enumerate() {
        let at_edge = match character {
            ' ' => place == 0 || place == last,
            '#' => place == 0,
            _ => false,
        };
        match character {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => {
                out.push('\\');
                out.push(character);
            }
            _ if at_edge => {
                out.push('\\');
                out.push(character);
            }
            ' '..='~' => out.push(character),
            _ => {
                for byte in character.encode_utf8(&mut bytes).bytes() {
                    let _memory = write!(out, "\\{byte:02X}");
                }
            }
        }
    }
}

/// The value as DER in hexadecimal.
fn dump(value: &Any<'_>, out: &mut String) {
    out.push('#');
    let head = [u8::try_from(value.header.tag().0).unwrap_or(0x1f)
        | if value.header.is_constructed() {
            0x20
        } else {
            0
        }];
    let length = value.data.len();
    let long = length.to_be_bytes();
    let used = &long[long.iter().take_while(|&&byte| byte == 0).count()..];
    let lengths: Vec<u8> = match u8::try_from(length) {
        Ok(length @ ..0x80) => vec![length],
        _ => [&[0x80 | used.len() as u8], used].concat(),
    };
    for byte in head.iter().chain(&lengths).chain(value.data) {
        let _memory = write!(out, "{byte:02X}");
    }
}

/// The name as it was written before RFC 2253: in its own order, with slashes.
#[must_use]
pub fn legacy(name: &X509Name<'_>) -> String {
    let mut out = String::new();
    for set in name.iter_rdn() {
        let mut before = '/';
        for attribute in set.iter() {
            out.push(before);
            before = '+';
            let (number, short) = kind(attribute);
            out.push_str(short.unwrap_or(&number));
            out.push('=');
            let value = attribute.attr_value();
            let is_wide = matches!(value.header.tag(), Tag::BmpString | Tag::UniversalString);
            for &byte in value.data.iter().filter(|byte| !(is_wide && **byte == 0)) {
                match byte {
                    b' '..=b'~' => out.push(char::from(byte)),
                    _ => {
                        let _memory = write!(out, "\\x{byte:02X}");
                    }
                }
            }
        }
    }
    out
}
