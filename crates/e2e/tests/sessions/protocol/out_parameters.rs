//! Calls as JDBC makes them: every parameter is sent, those that only come back with type `void`, which PostgreSQL leaves out of the
//! call. It cannot be asked for its analysis of such a text.

use crate::{Message, Pair, create, same};

const INT4: u32 = 23;
const VOID: u32 = 2278;

/// Parse, Describe, Bind and Execute with one number, and nothing for the other parameters.
fn call(sql: &str, number: &str, outs: usize) -> Vec<Message> {
    let types: Vec<u32> = [INT4].into_iter().chain(vec![VOID; outs]).collect();
    let count = (types.len() as u16).to_be_bytes();
    let mut parse = [b"\0", sql.as_bytes(), b"\0", &count].concat();
    types.iter().for_each(|of| parse.extend_from_slice(&of.to_be_bytes()));
    let mut bind = [b"\0\0\0\0".as_slice(), &count, &(number.len() as u32).to_be_bytes(), number.as_bytes()].concat();
    bind.extend_from_slice(&u32::MAX.to_be_bytes().repeat(outs));
    bind.extend_from_slice(b"\0\0");
    let describe = (b'D', b"P\0".to_vec());
    vec![(b'P', parse), (b'B', bind), describe, (b'E', b"\0\0\0\0\0".to_vec()), (b'S', Vec::new())]
}

pub fn calls(pair: &mut Pair) {
    create(pair, "called");
    for client in [&mut pair.reference, &mut pair.cluster] {
        for sql in [
            "INSERT INTO called SELECT g, 'v' || g FROM generate_series(1, 20) g",
            "CREATE FUNCTION count_above(low int, OUT found bigint, OUT first int) LANGUAGE sql \
             AS 'SELECT count(*), min(k) FROM called WHERE k > low'",
            "CREATE FUNCTION names_above(low int) RETURNS TABLE (k int, v text) LANGUAGE plpgsql AS \
             'BEGIN RETURN QUERY SELECT c.k, c.v FROM called c WHERE c.k > low ORDER BY c.k; END'",
        ] {
            client.run(sql).expect(sql);
        }
    }
    for (sql, outs) in [
        ("select * from count_above($1,$2,$3)  as result", 2),
        ("select * from count_above($1,$2,$3)", 2),
        ("select r.*, 1 from count_above($1,$2,$3) r", 2),
        ("select found + 1, first from count_above($1,$2,$3)", 2),
        ("select * from names_above($1)  as result", 0),
        ("select v, * from names_above($1)", 0),
    ] {
        let messages = call(sql, "15", outs);
        let messages: Vec<(u8, &[u8])> = messages.iter().map(|(tag, body)| (*tag, body.as_slice())).collect();
        for begin in ["BEGIN", "SELECT 1"] {
            same(pair, sql, |client| {
                client.simple(begin)?;
                client.send_messages(&messages)?;
                let answers = client.wait()?;
                client.simple("ROLLBACK")?;
                Ok(answers)
            });
        }
    }
}
