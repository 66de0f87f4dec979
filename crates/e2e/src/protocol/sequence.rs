//! Random sequences of messages, and what spoils them.

use testkit::Rng;

use super::messages::{
    Message, Values, bare, bind, copy_fail, execute, function_call, message, of_target, parse, query,
};
use super::texts::{COPIES, Kind, Text, copy_data, prepared, simple};

const STATEMENTS: [&str; 4] = ["", "", "s1", "s\u{e4}"];
const PORTALS: [&str; 4] = ["", "", "p1", "p2"];
/// One COPY in so many pieces of data has wrong ones.
const WRONG_DATA: usize = 40;

/// A sequence of messages of a client that is logged in.
pub fn sequence(rng: &mut Rng) -> Vec<Message> {
    let mut writer = Writer { rng, said: Vec::new(), prepared: Vec::new() };
    for _ in 0..1 + writer.rng.below(10) {
        writer.piece();
    }
    let mut said = writer.said;
    if rng.below(5) < 2 {
        for _ in 0..1 + rng.below(2) {
            spoil(&mut said, rng);
        }
    }
    said
}

struct Writer<'r> {
    rng: &'r mut Rng,
    said: Vec<Message>,
    /// Statements by name, as they should be by now.
    prepared: Vec<(&'static str, Text)>,
}

impl Writer<'_> {
    fn piece(&mut self) {
        match self.rng.below(24) {
            0..=4 => {
                let sql = simple(self.rng);
                self.say(query(&sql));
            }
            5..=11 => self.statement(),
            12 => {
                self.parse();
            }
            13 => self.bind(),
            14 => self.describe(),
            15 => self.execute(),
            16 => {
                let name = self.rng.pick(&STATEMENTS);
                let target = if self.rng.one_in(2) { of_target(b'C', b'S', name) } else { self.close_portal() };
                self.say(target);
            }
            17 => self.say(bare(b'H')),
            18 | 19 => self.say(bare(b'S')),
            20 | 21 => self.copy(),
            22 => {
                let stray = [message(b'd', b"5\tstray\n"), bare(b'c'), copy_fail("stray")];
                let stray = stray[self.rng.below(3)].clone();
                self.say(stray);
            }
            _ => match self.rng.below(6) {
                0 => self.say(bare(b'X')),
                1..=3 => self.call(),
                _ => self.insert_batch(),
            },
        }
    }

    fn say(&mut self, message: Message) {
        self.said.push(message);
    }

    fn close_portal(&mut self) -> Message {
        of_target(b'C', b'P', self.rng.pick(&PORTALS))
    }

    /// What a driver sends, or most of it.
    fn statement(&mut self) {
        let name = self.parse();
        if self.rng.one_in(3) {
            self.say(of_target(b'D', b'S', name));
        }
        let portal = self.rng.pick(&PORTALS);
        let values = self.values(name);
        self.say(bind(portal, name, &values));
        if self.rng.one_in(2) {
            self.say(of_target(b'D', b'P', portal));
        }
        for _ in 0..1 + self.rng.below(2) * self.rng.below(3) {
            let rows_max = self.rows_max();
            self.say(execute(portal, rows_max));
        }
        match self.rng.below(4) {
            0 => {}
            1 => self.say(bare(b'H')),
            _ => self.say(bare(b'S')),
        }
    }

    fn rows_max(&mut self) -> i32 {
        [0, 0, 0, 1, 2, 3, 100, -1, i32::MAX][self.rng.below(9)]
    }

    fn parse(&mut self) -> &'static str {
        let name = STATEMENTS[self.rng.below(4)];
        let text = prepared(self.rng);
        let (sql, kinds) = text;
        // A name that is taken must be free again, or none of what follows means what it should.
        if !name.is_empty() && !self.rng.one_in(8) {
            self.say(of_target(b'C', b'S', name));
        }
        let types: Vec<u32> = match self.rng.below(5) {
            0 => kinds.iter().map(|kind| kind.oid()).collect(),
            1 => vec![0; self.rng.below(3)],
            2 if self.rng.one_in(3) => vec![[16, 20, 25, 1184, 99_999][self.rng.below(5)]],
            _ => Vec::new(),
        };
        self.say(parse(name, sql, &types));
        self.prepared.retain(|(other, _)| *other != name);
        self.prepared.push((name, text));
        name
    }

    fn values(&mut self, name: &str) -> Values {
        let kinds: &[Kind] =
            self.prepared.iter().find(|(known, _)| *known == name).map_or(&[], |(_, (_, kinds))| kinds);
        let is_binary = self.rng.one_in(3);
        let mut values = Values::default();
        for kind in kinds {
            let value = (!self.rng.one_in(12)).then(|| kind.value(is_binary, self.rng));
            values.values.push(value);
            values.formats.push(i16::from(is_binary));
        }
        if values.formats.iter().all(|format| *format == 0) && self.rng.one_in(2) || self.rng.one_in(6) {
            values.formats.truncate(1);
        }
        match self.rng.below(24) {
            0 => values.values.push(Some(b"1".to_vec())),
            1 => drop(values.values.pop()),
            2 => values.formats.push(0),
            3 => values.formats.push(7),
            _ => {}
        }
        values.result_formats = match self.rng.below(12) {
            0..=2 => vec![1],
            3 => vec![0],
            4 => vec![0, 1],
            5 => vec![2],
            _ => Vec::new(),
        };
        values
    }

    fn bind(&mut self) {
        let (portal, name) = (self.rng.pick(&PORTALS), self.rng.pick(&STATEMENTS));
        let values = self.values(name);
        self.say(bind(portal, name, &values));
    }

    fn describe(&mut self) {
        let (kind, names) = if self.rng.one_in(2) { (b'S', STATEMENTS) } else { (b'P', PORTALS) };
        let target = of_target(b'D', kind, names[self.rng.below(4)]);
        self.say(target);
    }

    fn execute(&mut self) {
        let rows_max = self.rows_max();
        let portal = PORTALS[self.rng.below(4)];
        self.say(execute(portal, rows_max));
    }

    /// A COPY from the client by either protocol, its data, and its end, or not.
    fn copy(&mut self) {
        let sql = self.rng.pick(COPIES);
        let is_extended = self.rng.one_in(2);
        if is_extended {
            self.said.extend([parse("", sql, &[]), bind("", "", &Values::default()), execute("", 0)]);
        } else {
            self.say(query(sql));
        }
        let pieces = if sql.contains("binary") { 1 } else { self.rng.below(4) };
        for _ in 0..pieces {
            let data = copy_data(sql, WRONG_DATA, self.rng);
            self.say(message(b'd', &data));
            if self.rng.one_in(8) {
                let ignored = bare([b'H', b'S'][self.rng.below(2)]);
                self.say(ignored);
            }
        }
        match self.rng.below(10) {
            0 => {}
            1 => self.say(copy_fail("no more")),
            _ => self.say(bare(b'c')),
        }
        if is_extended && !self.rng.one_in(6) {
            self.say(bare(b'S'));
        }
    }

    /// Executions of one INSERT that follow each other closely.
    fn insert_batch(&mut self) {
        let table = self.rng.pick(&["fh", "fb", "fr"]);
        self.said.push(of_target(b'C', b'S', "s1"));
        self.said.push(parse("s1", &format!("INSERT INTO {table} VALUES ($1, $2)"), &[]));
        self.prepared.retain(|(name, _)| *name != "s1");
        for _ in 0..2 + self.rng.below(6) {
            // Mostly new keys.
            let key = if self.rng.one_in(12) { 3 } else { 5000 + self.rng.below(100_000) };
            let values = vec![Some(key.to_string().into_bytes()), Some(b"batch".to_vec())];
            self.said.push(bind("", "s1", &Values { values, ..Values::default() }));
            self.said.push(execute("", 0));
        }
        self.say(bare(b'S'));
    }

    /// Calls functions on large objects, which give the same everywhere when there are none; others, and none.
    fn call(&mut self) {
        let function = [953, 958, 964, 1397, 0, 4_000_000_000][self.rng.below(6)];
        let argument = if self.rng.one_in(4) { b"x".to_vec() } else { b"4711".to_vec() };
        let values = Values { values: vec![Some(argument)], ..Values::default() };
        self.say(function_call(function, &values));
    }
}

/// Spoils one of the messages, or their order.
fn spoil(said: &mut Vec<Message>, rng: &mut Rng) {
    let at = rng.below(said.len());
    let length = said[at].len();
    let mut body = said[at][5.min(length)..].to_vec();
    let tag = said[at][0];
    match rng.below(13) {
        0 | 1 => {
            let flipped = rng.below(length);
            said[at][flipped] ^= 1 << rng.below(8);
        }
        2 => {
            let other = rng.below(length);
            said[at][other] = rng.next_u64() as u8;
        }
        3 => {
            let wrong = wrong_length(length as u32 - 1, rng);
            said[at].splice(1.min(length)..5.min(length), wrong.to_be_bytes());
        }
        // Cut off, with a length that says so, or with the old one.
        4 | 5 if !body.is_empty() => {
            body.truncate(rng.below(body.len()));
            said[at] = message(tag, &body);
        }
        6 => said[at].truncate(1 + rng.below(length)),
        7 => {
            body.extend((0..1 + rng.below(9)).map(|_| rng.below(4) as u8));
            said[at] = message(tag, &body);
        }
        8 if !body.is_empty() => {
            let from = rng.below(body.len());
            let count = 1 + rng.below(6);
            for byte in body.iter_mut().skip(from).take(count) {
                *byte = rng.next_u64() as u8;
            }
            said[at] = message(tag, &body);
        }
        9 => said[at][0] = b"vzpRZ\0\xff "[rng.below(8)],
        10 => {
            // Another message with this body.
            let tags = b"QPBDECHSFdcfX";
            said[at][0] = tags[rng.below(tags.len())];
        }
        11 => said.insert(at, said[at].clone()),
        _ => {
            let other = rng.below(said.len());
            said.swap(at, other);
        }
    }
}

fn wrong_length(right: u32, rng: &mut Rng) -> u32 {
    match rng.below(12) {
        0 => 0,
        1 => 3,
        2 => 4,
        3 => right.wrapping_sub(1 + rng.below(4) as u32),
        4 => right + 1 + rng.below(4) as u32,
        5 => 10_000 + rng.below(2) as u32,
        6 => 0x3fff_fffe + rng.below(2) as u32,
        7 => 0x4000_0000,
        8 => 0x7fff_ffff,
        9 => 0x8000_0000,
        10 => u32::MAX,
        _ => rng.below(300) as u32,
    }
}
