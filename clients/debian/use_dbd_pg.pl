# DBD::Pg: placeholders, arrays, prepared statements, COPY, savepoints, metadata, asynchronous queries.
use strict;
use warnings;
use DBI;
use DBD::Pg qw(:async :pg_types);

my ($host, $port, $name) = $ARGV[-1] =~ m{@([^:]+):(\d+)/(\w+)};
my $db = DBI->connect("dbi:Pg:dbname=$name;host=$host;port=$port", 'postgres', '', { RaiseError => 1, PrintError => 0, AutoCommit => 1, PrintWarn => 0 });

sub shown {
    my ($value) = @_;
    return ref $value eq 'ARRAY' ? '[' . join(', ', map { shown($_) } @$value) . ']' : defined $value ? $value : 'NULL';
}

sub attempt {
    my ($label, $work) = @_;
    my $result = eval { $work->() };
    if ($@) {
        my ($line) = $db->errstr ? split /\n/, $db->errstr : split /\n/, $@;
        print "$label: ERROR ", $db->state, " $line\n";
        $db->rollback unless $db->{AutoCommit};
        return;
    }
    return print "$label: ", shown($result), "\n" unless ref $result eq 'ARRAY';
    print "$label: ", scalar @$result, "\n";
    print '    ', shown($_), "\n" for @$result;
}

$db->do('CREATE TABLE bird (id serial PRIMARY KEY, name text UNIQUE, wings int[], weight numeric(8,3), seen timestamp)');
$db->do('CREATE TABLE nest (bird int REFERENCES bird, eggs int)');
attempt('insert', sub { my $s = $db->prepare('INSERT INTO bird (name, wings, weight) VALUES (?, ?, ?) RETURNING id'); [map { $s->execute("b$_", [$_, $_ + 1], $_ / 8); $s->fetchrow_arrayref->[0] } 1 .. 20] });
attempt('arrays', sub { $db->prepare('INSERT INTO nest VALUES (?, ?)')->execute_array({}, [map { 1 + $_ % 20 } 1 .. 60], [1 .. 60]) });
attempt('last id', sub { $db->last_insert_id(undef, undef, 'bird', undef) });
attempt('rows', sub { $db->selectall_arrayref('SELECT id, name, wings, weight FROM bird WHERE id < ? ORDER BY id', undef, 5) });
attempt('named', sub { my $s = $db->prepare('SELECT name FROM bird WHERE id = :a OR id = :b ORDER BY id'); $s->bind_param(':a', 3, { pg_type => PG_INT4 }); $s->bind_param(':b', 9); $s->execute; $s->fetchall_arrayref });
attempt('join', sub { $db->selectall_arrayref('SELECT name, sum(eggs) FROM bird JOIN nest ON bird = id GROUP BY name ORDER BY 2 DESC, 1 LIMIT 4') });
attempt('hash', sub { my $h = $db->selectall_hashref('SELECT id, name FROM bird WHERE id < 4', 'id'); [map { "$_ $h->{$_}{name}" } sort keys %$h] });
attempt('any', sub { $db->selectcol_arrayref('SELECT name FROM bird WHERE id = ANY (?) ORDER BY id', undef, [2, 4]) });
attempt('unique', sub { $db->do("INSERT INTO bird (name) VALUES ('b1')") });
attempt('foreign', sub { $db->do('INSERT INTO nest VALUES (500, 1)') });
attempt('updated', sub { $db->do('UPDATE nest SET eggs = eggs + ? WHERE bird < ?', undef, 1, 10) });
attempt('copy in', sub { $db->do('COPY nest FROM STDIN'); $db->pg_putcopydata("$_\t1000\n") for 1 .. 15; $db->pg_putcopyend; $db->selectall_arrayref('SELECT count(*), sum(eggs) FROM nest') });
attempt('copy out', sub { $db->do('COPY (SELECT id, name FROM bird WHERE id < 4 ORDER BY id) TO STDOUT'); my ($line, @lines); push @lines, $line =~ s/\n//r while $db->pg_getcopydata($line) >= 0; \@lines });
attempt('savepoints', sub { $db->begin_work; $db->do('DELETE FROM nest WHERE eggs = 1000'); $db->pg_savepoint('s'); $db->do('DELETE FROM nest'); $db->pg_rollback_to('s'); $db->commit; $db->selectall_arrayref('SELECT count(*) FROM nest') });
attempt('asynchronous', sub { my $s = $db->prepare('SELECT count(*), pg_sleep(0.1)::text FROM bird', { pg_async => PG_ASYNC }); $s->execute; $db->pg_result; $s->fetchall_arrayref });
attempt('columns', sub { my $s = $db->column_info(undef, 'public', 'bird', undef); [map { [@{$_}{qw(COLUMN_NAME TYPE_NAME NULLABLE)}] } @{ $s->fetchall_arrayref({}) }] });
attempt('keys', sub { [$db->primary_key(undef, 'public', 'bird')] });
attempt('foreign keys', sub { my $s = $db->foreign_key_info(undef, undef, 'bird', undef, undef, 'nest'); [map { [$_->{FK_COLUMN_NAME}, $_->{UK_COLUMN_NAME}] } @{ $s->fetchall_arrayref({}) }] });
attempt('types', sub { my $s = $db->prepare('SELECT id, name, weight, sum(id) OVER () FROM bird LIMIT 1'); $s->execute; [[@{ $s->{NAME} }], [@{ $s->{pg_type} }]] });
attempt('notify', sub { $db->do('LISTEN song'); $db->do("NOTIFY song, 'la'"); my $n = $db->pg_notifies; $n ? [$n->[0], $n->[2]] : [] });
attempt('large object', sub { $db->begin_work; my $oid = $db->pg_lo_creat($db->{pg_INV_WRITE}); my $fd = $db->pg_lo_open($oid, $db->{pg_INV_WRITE}); $db->pg_lo_write($fd, 'abcdef', 6); $db->pg_lo_lseek($fd, 2, 0); $db->pg_lo_read($fd, my $text, 3); $db->pg_lo_unlink($oid); $db->commit; $text });
