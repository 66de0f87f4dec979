"""SQLAlchemy: ORM with relationships, core, reflection, constraints that come after the tables, two-phase sessions; and Alembic."""

import datetime
import decimal
import enum
import os
import sys
import tempfile

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql as pg

from shown import attempt

plain = sys.argv[1]
metadata_conventions = {"ix": "ix_%(table_name)s_%(column_0_name)s", "uq": "uq_%(table_name)s_%(column_0_name)s", "fk": "fk_%(table_name)s_%(column_0_name)s", "pk": "pk_%(table_name)s"}


class Base(orm.DeclarativeBase):
    metadata = sa.MetaData(naming_convention=metadata_conventions)


class Mood(enum.Enum):
    ok = 1
    sad = 2


member = sa.Table("member", Base.metadata, sa.Column("club_id", sa.ForeignKey("club.id"), primary_key=True), sa.Column("person_id", sa.ForeignKey("person.id"), primary_key=True))


class Person(Base):
    __tablename__ = "person"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    email: orm.Mapped[str] = orm.mapped_column(sa.String(80), unique=True)
    born: orm.Mapped[datetime.date | None]
    mood: orm.Mapped[Mood | None]
    data = orm.mapped_column(pg.JSONB)
    tags = orm.mapped_column(pg.ARRAY(sa.Text))
    boss_id: orm.Mapped[int | None] = orm.mapped_column(sa.ForeignKey("person.id"))
    boss: orm.Mapped["Person | None"] = orm.relationship(remote_side=[id])
    orders: orm.Mapped[list["Order"]] = orm.relationship(back_populates="person", cascade="all, delete-orphan", order_by="Order.id")
    clubs: orm.Mapped[list["Club"]] = orm.relationship(secondary=member, back_populates="people", order_by="Club.id")


class Club(Base):
    __tablename__ = "club"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(index=True)
    people: orm.Mapped[list[Person]] = orm.relationship(secondary=member, back_populates="clubs", order_by="Person.id")


class Order(Base):
    __tablename__ = "orders"
    __table_args__ = (sa.UniqueConstraint("person_id", "number"), sa.CheckConstraint("total >= 0", name="positive"))
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    person_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("person.id", ondelete="CASCADE"))
    number: orm.Mapped[int]
    total: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(10, 2), default=0)
    made: orm.Mapped[datetime.datetime] = orm.mapped_column(server_default=sa.func.now())
    version: orm.Mapped[int] = orm.mapped_column(default=0)
    person: orm.Mapped[Person] = orm.relationship(back_populates="orders")
    __mapper_args__ = {"version_id_col": version}


def engine_of(driver, **options):
    return sa.create_engine(plain.replace("postgresql://", f"postgresql+{driver}://"), **options)


def constraints_that_come_later(engine):
    """Tables first, then what makes their rows unique and refer to each other."""
    with engine.begin() as c:
        c.exec_driver_sql("CREATE TABLE late_a (id int PRIMARY KEY, code text, num int)")
        c.exec_driver_sql("CREATE TABLE late_b (x int, a_code text, a_num int, y int)")
        c.exec_driver_sql("INSERT INTO late_a SELECT g, 'c' || g, mod(g, 10) FROM generate_series(1, 50) g")
        c.exec_driver_sql("INSERT INTO late_b SELECT g, 'c' || g, mod(g, 10), g FROM generate_series(1, 50) g")
    steps = [
        "ALTER TABLE late_a ADD CONSTRAINT late_code UNIQUE (code)",
        "CREATE UNIQUE INDEX late_pair ON late_a (num, code)",
        "ALTER TABLE late_b ADD CONSTRAINT late_fk FOREIGN KEY (a_code) REFERENCES late_a (code)",
        "ALTER TABLE late_b ADD CONSTRAINT late_pair_fk FOREIGN KEY (a_num, a_code) REFERENCES late_a (num, code) ON UPDATE CASCADE",
        "ALTER TABLE late_b ADD PRIMARY KEY (y)",
        "CREATE UNIQUE INDEX late_lower ON late_b (lower(a_code))",
        "CREATE UNIQUE INDEX late_some ON late_a (num) WHERE id < 10",
        "INSERT INTO late_a VALUES (100, 'c7', 1)",
        "INSERT INTO late_b VALUES (1, 'none', 1, 100)",
        "UPDATE late_a SET code = 'new' WHERE id = 3",
        "ALTER TABLE late_a ADD COLUMN more int UNIQUE",
        "ALTER TABLE late_a DROP CONSTRAINT late_a_pkey, ADD PRIMARY KEY (code, id)",
        "SELECT count(*), sum(num), count(DISTINCT code) FROM late_a JOIN late_b ON code = a_code",
    ]
    for number, step in enumerate(steps):
        def run(step=step):
            with engine.begin() as c:
                result = c.exec_driver_sql(step)
                return [tuple(r) for r in result] if result.returns_rows else [result.rowcount]

        attempt(f"later {number}", run)


def with_driver(driver):
    print(f"-- {driver}")
    engine = engine_of(driver)
    Base.metadata.drop_all(engine)
    attempt("create", lambda: Base.metadata.create_all(engine))
    session = orm.sessionmaker(engine)

    def fill():
        with session.begin() as s:
            people = [Person(email=f"p{i}@x", born=datetime.date(1990, 1, 1 + i % 28), mood=list(Mood)[i % 2], data={"i": i}, tags=[f"t{i % 3}"]) for i in range(30)]
            s.add_all(people)
            s.flush()
            for i, p in enumerate(people):
                p.boss = people[i // 4] if i else None
                p.orders = [Order(number=n, total=decimal.Decimal(i * n) / 4) for n in range(i % 4)]
            s.add_all(Club(name=f"club {i}", people=people[i : i + 5]) for i in range(6))

    def select(query, scalars=False):
        with session() as s:
            result = s.execute(query)
            return result.scalars().all() if scalars else [tuple(r) for r in result]

    attempt("fill", fill)
    attempt("count", lambda: select(sa.select(sa.func.count(Person.id), sa.func.max(Person.email))))
    attempt("join", lambda: select(sa.select(Person.email, sa.func.sum(Order.total)).join(Order).group_by(Person.email).having(sa.func.sum(Order.total) > 5).order_by(sa.desc(sa.text("2")), Person.email)))
    attempt("json", lambda: select(sa.select(Person.id).where(Person.data["i"].as_integer() > 26).order_by(Person.id)))
    attempt("array", lambda: select(sa.select(Person.id).where(Person.tags.any("t1"), Person.id < 12).order_by(Person.id)))
    attempt("in", lambda: select(sa.select(Person.email).where(Person.id.in_([1, 2, 3])).order_by(Person.id)))
    attempt("case", lambda: select(sa.select(sa.case((Person.id < 10, "low"), else_="high").label("c"), sa.func.count()).group_by("c").order_by("c")))
    attempt("case of parameters", lambda: select(sa.select(sa.case((Person.id < 10, "low"), else_="high"), sa.func.count()).group_by(sa.case((Person.id < 10, "low"), else_="high")).order_by(sa.func.count())))
    boss = orm.aliased(Person)
    attempt("self join", lambda: select(sa.select(Person.email, boss.email).join(boss, Person.boss_id == boss.id).order_by(Person.id).limit(6)))
    attempt("exists", lambda: select(sa.select(Person.id).where(~Person.orders.any()).order_by(Person.id)))
    attempt("window", lambda: select(sa.select(Order.id, sa.func.row_number().over(partition_by=Order.person_id, order_by=Order.number)).order_by(Order.id).limit(8)))
    tree = sa.select(Person.id, sa.literal(0).label("d")).where(Person.boss_id.is_(None)).cte(recursive=True)
    tree = tree.union_all(sa.select(Person.id, tree.c.d + 1).where(Person.boss_id == tree.c.id))
    attempt("recursive", lambda: select(sa.select(tree.c.d, sa.func.count()).group_by(tree.c.d).order_by(tree.c.d)))

    def eager(loader):
        with session() as s:
            return [(p.email, [o.number for o in p.orders], [c.name for c in p.clubs]) for p in s.scalars(sa.select(Person).options(loader(Person.orders), loader(Person.clubs)).where(Person.id < 6).order_by(Person.id)).unique()]

    attempt("joined", lambda: eager(orm.joinedload))
    attempt("selectin", lambda: eager(orm.selectinload))
    attempt("subquery", lambda: eager(orm.subqueryload))

    def change():
        with session.begin() as s:
            p = s.get(Person, 3)
            p.email = "changed@x"
            p.orders.append(Order(number=77, total=1))
            s.delete(s.get(Person, 8))
            s.flush()
            p.clubs.clear()
            with s.begin_nested():
                s.execute(sa.update(Order).where(Order.number == 1).values(total=Order.total + 1))
            locked = s.scalars(sa.select(Order).where(Order.person_id == 3).order_by(Order.id).with_for_update()).all()
            return [(o.number, o.total) for o in locked]

    attempt("change", change)

    def stale():
        with session() as a, session() as b:
            x, y = a.scalars(sa.select(Order).order_by(Order.id).limit(1)).one(), b.scalars(sa.select(Order).order_by(Order.id).limit(1)).one()
            x.total = 9
            a.commit()
            y.total = 10
            b.commit()

    attempt("stale", stale)
    upsert = pg.insert(Person).values(email="p1@x", tags=["up"])
    attempt("upsert", lambda: _begin(session, upsert.on_conflict_do_update(index_elements=["email"], set_={"tags": upsert.excluded.tags}).returning(Person.id, Person.tags)))
    attempt("many returning", lambda: len(_begin(session, sa.insert(Club).returning(Club.id), [{"name": f"m{i}"} for i in range(300)])))
    attempt("insert from select", lambda: sorted(_begin(session, sa.insert(Club).from_select(["name"], sa.select(Person.email).where(Person.id < 5)).returning(Club.name))))
    attempt("delete from", lambda: sorted(_begin(session, sa.delete(Order).where(Order.person_id == Person.id, Person.email == "p3@x").returning(Order.number))))
    attempt("duplicate", lambda: _begin(session, sa.insert(Person).values(email="p2@x")))
    attempt("check", lambda: _begin(session, sa.insert(Order).values(person_id=1, number=1000, total=-1, version=1)))

    def streamed():
        with engine.connect() as c:
            got = [r[0] for r in c.execution_options(stream_results=True, max_row_buffer=7).execute(sa.select(Person.id).order_by(Person.id))]
            return [len(got), got[-1]]

    attempt("streamed", streamed)

    def reflected():
        inspector = sa.inspect(engine)
        lines = []
        for table in sorted(inspector.get_table_names()):
            lines.append((table, sorted((c["name"], str(c["type"]), c["nullable"]) for c in inspector.get_columns(table))))
            lines.append((inspector.get_pk_constraint(table)["constrained_columns"], sorted(f["constrained_columns"] for f in inspector.get_foreign_keys(table)), sorted(u["column_names"] for u in inspector.get_unique_constraints(table)), sorted(i["column_names"] for i in inspector.get_indexes(table)), [c["sqltext"] for c in inspector.get_check_constraints(table)]))
        return lines + inspector.get_enums()

    attempt("reflected", reflected)

    def two_phase(end):
        with orm.Session(engine, twophase=True) as s:
            rows = s.execute(sa.select(Person.email, sa.func.rank().over(order_by=Person.email)).order_by(Person.email).limit(2)).all()
            s.add(Club(name=f"two phases {end}"))
            s.execute(sa.update(Order).values(total=Order.total + 1))
            s.flush()
            s.prepare()
            s.commit() if end == "commit" else s.rollback()
            return [tuple(r) for r in rows] + select(sa.select(sa.func.count(), sa.func.sum(Order.total)).select_from(Order))

    if driver != "asyncpg":
        attempt("two phases", lambda: two_phase("commit"))
        attempt("two phases back", lambda: two_phase("rollback"))
    engine.dispose()


def _begin(session, statement, rows=None):
    with session.begin() as s:
        result = s.execute(statement, rows) if rows else s.execute(statement)
        is_of_rows = getattr(result, "returns_rows", True)
        return [tuple(r) for r in result] if is_of_rows else [result.rowcount]


REVISION = '''
from alembic import op
import sqlalchemy as sa
revision, down_revision = {revision!r}, {down!r}
def upgrade():
{up}
def downgrade():
{undo}
'''
REVISIONS = [
    ("    op.create_table('acc', sa.Column('id', sa.Integer, primary_key=True), sa.Column('name', sa.String(20)), sa.Column('kind', sa.Enum('a', 'b', name='acc_kind')))\n    op.bulk_insert(sa.table('acc', sa.column('name', sa.String)), [{'name': f'n{i}'} for i in range(20)])", "    op.drop_table('acc')\n    op.execute('DROP TYPE acc_kind')"),
    ("    op.create_unique_constraint('acc_name', 'acc', ['name'])\n    op.create_index('acc_lower', 'acc', [sa.text('lower(name)')], unique=True)", "    op.drop_index('acc_lower')\n    op.drop_constraint('acc_name', 'acc')"),
    ("    op.create_table('sub', sa.Column('k', sa.BigInteger), sa.Column('acc', sa.String(20)))\n    op.create_foreign_key('sub_acc', 'sub', 'acc', ['acc'], ['name'])\n    op.create_primary_key('sub_pk', 'sub', ['k'])", "    op.drop_table('sub')"),
    ("    op.alter_column('acc', 'name', type_=sa.Text(), nullable=False)\n    op.add_column('acc', sa.Column('at', sa.DateTime, server_default=sa.func.now()))\n    op.rename_table('sub', 'sub2')", "    op.rename_table('sub2', 'sub')\n    op.drop_column('acc', 'at')"),
]


def alembic_runs():
    from alembic import command
    from alembic.config import Config

    with tempfile.TemporaryDirectory() as folder:
        config = Config()
        config.set_main_option("script_location", folder)
        config.set_main_option("sqlalchemy.url", plain.replace("postgresql://", "postgresql+psycopg://"))
        config.set_main_option("path_separator", "os")
        os.mkdir(os.path.join(folder, "versions"))
        with open(os.path.join(folder, "env.py"), "w") as f:
            f.write("from alembic import context\nimport sqlalchemy as sa\nengine = sa.create_engine(context.config.get_main_option('sqlalchemy.url'))\nwith engine.connect() as c:\n    context.configure(connection=c, target_metadata=sa.MetaData())\n    with context.begin_transaction():\n        context.run_migrations()\n")
        for i, (up, undo) in enumerate(REVISIONS):
            with open(os.path.join(folder, "versions", f"r{i}.py"), "w") as f:
                f.write(REVISION.format(revision=f"r{i}", down=f"r{i - 1}" if i else None, up=up, undo=undo))
        engine = engine_of("psycopg")
        for target in ("r0", "r1", "r2", "head"):
            attempt(f"upgrade {target}", lambda: command.upgrade(config, target))
        with engine.connect() as c:
            attempt("rows", lambda: [tuple(r) for r in c.exec_driver_sql("SELECT count(*), max(name), (SELECT version_num FROM alembic_version) FROM acc")])
        attempt("downgrade", lambda: command.downgrade(config, "base"))


constraints_that_come_later(engine_of("psycopg"))
for name in ("psycopg", "psycopg2"):
    with_driver(name)
alembic_runs()
