//! Random first bytes of connections.

use testkit::Rng;

use super::messages::{Message, bare, parameters, query, startup};

const SSL: u32 = (1234 << 16) | 5679;
const GSS: u32 = (1234 << 16) | 5680;
const CANCEL: u32 = (1234 << 16) | 5678;

/// What a client sends before it is logged in. Each but the last packet is a request that the server answers with one byte.
pub fn packets(rng: &mut Rng) -> Vec<Message> {
    let mut packets = Vec::new();
    while rng.one_in(4) {
        packets.push(startup(if rng.one_in(2) { SSL } else { GSS }, b""));
    }
    let mut last = last_packet(rng);
    if rng.one_in(5) {
        spoil(&mut last, rng);
    }
    packets.push(last);
    packets
}

/// Does it begin with a request for encryption?
pub fn is_request(packet: &[u8]) -> bool {
    packet.starts_with(&startup(SSL, b"")) || packet.starts_with(&startup(GSS, b""))
}

fn last_packet(rng: &mut Rng) -> Message {
    let usual = [("user", "postgres"), ("database", "postgres")];
    let version = 3 << 16;
    match rng.below(20) {
        0 => startup(CANCEL, &[rng.next_u64().to_be_bytes()].concat()),
        1 => startup(CANCEL, &vec![1; rng.below(12)]),
        2 => startup(version + [1, 2, 9999][rng.below(3)], &parameters(&usual)),
        3 => startup(2 << 16, &[0; 288]),
        4 => startup([4 << 16, 1 << 16, 0, 1234 << 16, u32::MAX][rng.below(5)], &parameters(&usual)),
        5 => startup(version, &parameters(&[])),
        6 => startup(version, &parameters(&[("database", "postgres")])),
        7 => startup(version, &parameters(&[("user", ""), ("database", "postgres")])),
        8 => startup(version, &parameters(&[("user", "nosuch"), ("database", "postgres")])),
        9 => startup(version, &parameters(&[("user", "postgres"), ("database", "nosuch")])),
        10 => startup(version, &parameters(&[usual[0], usual[1], ("_pq_.made_up", "1"), ("_pq_.other", "")])),
        11 => {
            let settings =
                [("work_mem", "5MB"), ("DateStyle", "German"), ("nosuch", "1"), ("work_mem", "many"), ("a.b", "c")];
            startup(version, &parameters(&[usual[0], usual[1], settings[rng.below(settings.len())]]))
        }
        12 => {
            let options = ["-c work_mem=5MB", "--work-mem=5MB", "-c nosuch=1", "-c", "nonsense", ""];
            startup(version, &parameters(&[usual[0], usual[1], ("options", options[rng.below(options.len())])]))
        }
        13 => {
            // As long as may be, or longer: length word, version, and what is around the padding.
            let padding = 9_900 + rng.below(140);
            let text = "x".repeat(padding);
            startup(version, &parameters(&[usual[0], usual[1], ("application_name", &text)]))
        }
        14 => (0..1 + rng.below(60)).map(|_| rng.next_u64() as u8).collect(),
        15 => b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        16 => startup(version, b"user\0postgres\0database"),
        17 => startup(version, b"user\0postgres\0database\0postgres\0\0more"),
        // More than is due.
        18 => [startup(version, &parameters(&usual)), query("SELECT 1"), bare(b'X')].concat(),
        19 => [startup(SSL, b""), startup(version, &parameters(&usual))].concat(),
        _ => startup(version, &parameters(&usual)),
    }
}

fn spoil(packet: &mut Message, rng: &mut Rng) {
    let at = rng.below(packet.len());
    match rng.below(5) {
        0 => packet[at] ^= 1 << rng.below(8),
        1 => packet.truncate(at),
        2 => packet[at] = rng.next_u64() as u8,
        3 => {
            let length = [0, 4, 7, 8, 9, 10_000, 10_004, 10_005, 0x7fff_ffff, u32::MAX][rng.below(10)];
            packet.splice(..packet.len().min(4), u32::to_be_bytes(length));
        }
        _ => packet.extend((0..1 + rng.below(8)).map(|_| rng.next_u64() as u8)),
    }
}
