//! A small cluster of three datanodes for plan tests.

use catalog::*;
use placement::{BucketMap, KeyType};

const INT4: Oid = 23;
const INT8: Oid = 20;
const TEXT: Oid = 25;
const NUMERIC: Oid = 1700;
const FLOAT8: Oid = 701;
const DATE: Oid = 1082;

fn type_name(oid: Oid) -> &'static str {
    match oid {
        INT4 => "integer",
        INT8 => "bigint",
        TEXT => "text",
        NUMERIC => "numeric(15,2)",
        FLOAT8 => "double precision",
        DATE => "date",
        _ => panic!("no name for type {oid}"),
    }
}

pub struct Table {
    relation: Relation,
}

impl Table {
    fn new(oid: Oid, name: &str, columns: &[(&str, Oid)], distribution: Distribution) -> Self {
        let column = |(i, (name, type_oid)): (usize, &(&str, Oid))| Column {
            number: i as AttNum + 1,
            name: (*name).to_owned(),
            type_oid: *type_oid,
            type_modifier: if *type_oid == NUMERIC { ((15 << 16) | 2) + 4 } else { -1 },
            type_name: type_name(*type_oid).to_owned(),
            not_null: false,
            default: None,
            default_is_stable: true,
            generated: Generated::No,
            deterministic: true,
            default_collation: true,
            bytewise: *type_oid == TEXT && *name != "n_name",
        };
        let relation = Relation {
            oid,
            schema: "public".to_owned(),
            name: name.to_owned(),
            kind: RelationKind::Table,
            persistence: Persistence::Permanent,
            columns: columns.iter().enumerate().map(column).collect(),
            distribution,
            by_default: false,
            view_definition: None,
            hides_operator: false,
            is_barrier: false,
            check_option: false,
            unique_keys: Vec::new(),
            foreign_keys: Vec::new(),
            parents: Vec::new(),
            other_unique: Vec::new(),
            exclusions: Vec::new(),
            is_partition: false,
            has_children: false,
            has_triggers: false,
            has_other_triggers: false,
            captured: Vec::new(),
            rules: Vec::new(),
            code: None,
            rows: 1000.0,
        };
        Self { relation }
    }

    fn rows(mut self, rows: f64) -> Self {
        self.relation.rows = rows;
        self
    }

    fn primary_key(mut self, columns: &[AttNum]) -> Self {
        let name = format!("{}_pkey", self.relation.name);
        self.relation.unique_keys.push(UniqueKey { name, columns: columns.to_vec(), primary: true });
        self
    }

    fn default(mut self, column: &str, text: &str, stable: bool) -> Self {
        let column = self.relation.columns.iter_mut().find(|c| c.name == column).unwrap();
        column.default = Some(text.to_owned());
        column.default_is_stable = stable;
        self
    }

    fn rule(mut self, event: RuleEvent, rest: &str) -> Self {
        let name = format!("r{}", self.relation.rules.len() + 1);
        let table = self.relation.qualified_name();
        let definition = format!("CREATE RULE {name} AS ON {} TO {table} {rest}", event.name());
        self.relation.rules.push(Rule { name, event, state: RuleState::Enabled, definition });
        self
    }

    fn view(mut self, definition: &str) -> Self {
        self.relation.kind = RelationKind::View;
        self.relation.view_definition = Some(definition.to_owned());
        self
    }
}

pub fn catalog() -> Catalog {
    catalog_but(|_| {}, |_| {})
}

/// The same with tables and functions changed.
pub fn catalog_but(change: impl Fn(&mut Relation), change_function: impl Fn(&mut Function)) -> Catalog {
    let mut builder = Builder::new(1, 150_000);
    // What `executor::load` asks PostgreSQL 15 for.
    builder.builtins(Builtins::from_lines(include_str!("builtins.tsv")).unwrap().into());
    for id in 0..3 {
        let name = format!("dn{}", id + 1);
        let node = Node { id: NodeId(id), name, host: String::new(), port: 1, primary: id == 0, preferred: false };
        builder.node(node);
    }
    builder.group(Group { name: "pair".to_owned(), members: vec![NodeId(1), NodeId(2)] });
    let map_id = MapId(1);
    builder.map(map_id, BucketMap::round_robin(&[0, 1, 2]));
    let map = builder.get_map(map_id).unwrap();
    let hash = |number, key_type| Distribution::Hash {
        columns: vec![KeyColumn { number, key_type }],
        map_id,
        map: map.clone(),
    };
    let modulo =
        Distribution::Modulo { column: KeyColumn { number: 1, key_type: KeyType::Int4 }, map_id, map: map.clone() };
    let all = || vec![NodeId(0), NodeId(1), NodeId(2)];
    let tables = [
        Table::new(
            16401,
            "lineitem",
            &[("l_orderkey", INT8), ("l_partkey", INT8), ("l_quantity", NUMERIC), ("l_price", NUMERIC), ("l_tax", FLOAT8), ("l_shipdate", DATE), ("l_flag", TEXT)],
            hash(1, KeyType::Int8),
        ),
        Table::new(16402, "orders", &[("o_orderkey", INT8), ("o_custkey", INT8), ("o_date", DATE), ("o_total", NUMERIC)], hash(1, KeyType::Int8))
            .primary_key(&[1]),
        Table::new(16403, "customer", &[("c_custkey", INT8), ("c_name", TEXT), ("c_nation", INT4)], hash(1, KeyType::Int8)).primary_key(&[1]),
        Table::new(16404, "nation", &[("n_key", INT4), ("n_name", TEXT)], Distribution::Replicated { nodes: all() }).primary_key(&[1]),
        Table::new(16405, "events", &[("e_id", INT8), ("e_text", TEXT)], Distribution::RoundRobin { nodes: all() }),
        Table::new(16406, "modded", &[("m_id", INT4), ("m_text", TEXT)], modulo),
        Table::new(16407, "accounts", &[("a_id", INT8), ("a_name", TEXT)], hash(1, KeyType::Int8)).default(
            "a_id",
            "nextval('public.accounts_a_id_seq'::regclass)",
            false,
        ),
        Table::new(16413, "stamped", &[("s_id", INT8), ("s_on", DATE), ("s_text", TEXT)], hash(1, KeyType::Int8)).default(
            "s_on",
            "CURRENT_DATE",
            true,
        ),
        Table::new(16408, "pairs", &[("p_a", INT8), ("p_b", TEXT), ("p_c", INT4)], {
            let columns = vec![KeyColumn { number: 1, key_type: KeyType::Int8 }, KeyColumn { number: 2, key_type: KeyType::Text }];
            Distribution::Hash { columns, map_id, map: map.clone() }
        }),
        Table::new(16409, "subset", &[("s_key", INT4), ("s_name", TEXT)], Distribution::Replicated { nodes: vec![NodeId(1), NodeId(2)] }),
        Table::new(16411, "clicks", &[("k_id", INT8), ("k_user", INT8), ("k_page", TEXT), ("k_paid", NUMERIC)], hash(1, KeyType::Int8)).rows(3e6),
        Table::new(16412, "people", &[("x_key", INT8), ("x_name", TEXT), ("x_age", INT4), ("x_weight", FLOAT8)], Distribution::Replicated { nodes: all() })
            .primary_key(&[1])
            .rows(1e6),
        Table::new(16410, "big_orders", &[("o_orderkey", INT8), ("o_total", NUMERIC)], Distribution::View)
            .view(" SELECT orders.o_orderkey,\n    orders.o_total\n   FROM public.orders\n  WHERE (orders.o_total > (1000)::numeric)"),
    ];
    let ruled = [
        Table::new(16420, "logged", &[("g_id", INT8), ("g_text", TEXT), ("g_n", INT4)], hash(1, KeyType::Int8))
            .default("g_n", "7", true)
            .rule(RuleEvent::Insert, "DO INSERT INTO public.events (e_id, e_text) VALUES (new.g_id, 'in '::text || new.g_n)")
            .rule(RuleEvent::Update, "WHERE (old.g_text <> new.g_text) DO INSERT INTO public.events (e_id, e_text) VALUES (old.g_id, new.g_text)")
            .rule(RuleEvent::Delete, "WHERE (old.g_n > 5) DO INSTEAD UPDATE public.nation SET n_name = old.g_text WHERE (nation.n_key = old.g_n)"),
        Table::new(16421, "kept", &[("k_id", INT8), ("k_text", TEXT)], hash(1, KeyType::Int8))
            .rule(RuleEvent::Delete, "DO INSTEAD NOTHING")
            .rule(RuleEvent::Insert, "WHERE (EXISTS ( SELECT 1 FROM public.kept WHERE (kept.k_id = new.k_id))) DO INSTEAD NOTHING"),
        Table::new(16422, "ring", &[("g_id", INT8)], hash(1, KeyType::Int8))
            .rule(RuleEvent::Insert, "DO INSERT INTO public.ring (g_id) VALUES (new.g_id)"),
        Table::new(16423, "shown", &[("s_id", INT8), ("s_date", DATE)], Distribution::View)
            .view(" SELECT orders.o_orderkey AS s_id,\n    orders.o_date AS s_date\n   FROM public.orders")
            .rule(RuleEvent::Insert, "DO INSTEAD INSERT INTO public.orders (o_orderkey, o_date) VALUES (new.s_id, new.s_date) RETURNING orders.o_orderkey, orders.o_date")
            .rule(RuleEvent::Update, "DO INSTEAD UPDATE public.orders SET o_orderkey = new.s_id, o_date = new.s_date WHERE (orders.o_orderkey = old.s_id)")
            .rule(RuleEvent::Delete, "DO INSTEAD DELETE FROM public.orders WHERE (orders.o_orderkey = old.s_id)"),
        Table::new(16424, "part_logged", &[("g_id", INT8), ("g_text", TEXT)], Distribution::View)
            .view(" SELECT logged.g_id,\n    logged.g_text\n   FROM public.logged\n  WHERE (logged.g_n = 1)"),
    ];
    builder.schema("public");
    for mut table in tables.into_iter().chain(ruled) {
        change(&mut table.relation);
        builder.relation(table.relation);
    }
    let function = |oid, name: &str, body: &str, language: &str| Function {
        oid,
        schema: "public".to_owned(),
        name: name.to_owned(),
        language: language.to_owned(),
        volatility: 'v',
        kind: 'f',
        is_public: true,
        definition: format!(
            "CREATE OR REPLACE FUNCTION public.{name}() RETURNS bigint LANGUAGE {language} AS $function${body}$function$"
        ),
        parts: Vec::new(),
        is_parallel_safe: false,
        is_trigger: false,
        sets_path: false,
        is_definer: false,
        arguments: (0, Some(0)),
        leavings: Default::default(),
    };
    let trigger = |oid, name: &str, body: &str| Function {
        definition: format!(
            "CREATE OR REPLACE FUNCTION public.{name}()\n RETURNS trigger\n LANGUAGE plpgsql\nAS $function${body}$function$"
        ),
        is_trigger: true,
        ..function(oid, name, "", "plpgsql")
    };
    let functions = [
        function(16501, "count_orders", "SELECT count(*) FROM orders", "sql"),
        function(16502, "count_nations", "SELECT count(*) FROM nation", "sql"),
        function(16503, "harmless", "BEGIN RETURN 1 + 1; END", "plpgsql"),
        function(16504, "dynamic", "BEGIN EXECUTE 'SELECT 1'; RETURN 1; END", "plpgsql"),
        trigger(16505, "logs", "BEGIN INSERT INTO events VALUES (NEW.o_orderkey, TG_OP); RETURN NEW; END"),
        trigger(16506, "looks", "BEGIN NEW.n := (SELECT n_name FROM nation WHERE n_key = 1); RETURN NEW; END"),
        trigger(16507, "rounds", "BEGIN NEW.o_total := round(NEW.o_total); RETURN NEW; END"),
        trigger(16508, "renumbers", "BEGIN NEW.o_orderkey := NEW.o_orderkey + 1; RETURN NEW; END"),
    ];
    for mut function in functions {
        change_function(&mut function);
        builder.function(function);
    }
    builder.build()
}
