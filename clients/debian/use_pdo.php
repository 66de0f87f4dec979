<?php
// PDO: named and positional parameters, cursors, transactions, large objects, COPY, errors.
$uri = parse_url(end($argv));
$pdo = new PDO("pgsql:host={$uri['host']};port={$uri['port']};dbname=" . substr($uri['path'], 1), $uri['user'], '', [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);

function attempt(string $label, callable $work): void
{
    try {
        $result = $work();
        if (is_array($result)) {
            echo "$label: ", count($result), "\n";
            foreach ($result as $row) {
                echo '    ', json_encode($row), "\n";
            }
        } else {
            echo "$label: ", json_encode($result), "\n";
        }
    } catch (PDOException $error) {
        echo "$label: ERROR {$error->getCode()} ", strtok($error->getMessage(), "\n"), "\n";
    }
}

function rows(PDO $pdo, string $sql, array $values = [], array $options = []): array
{
    $statement = $pdo->prepare($sql, $options);
    $statement->execute($values);
    return $statement->fetchAll(PDO::FETCH_ASSOC);
}

$pdo->exec('CREATE TABLE room (id serial PRIMARY KEY, name text UNIQUE, beds int, open bool, photo bytea)');
$pdo->exec('CREATE TABLE stay (room int REFERENCES room, night date, PRIMARY KEY (room, night))');
attempt('insert', function () use ($pdo) {
    $insert = $pdo->prepare('INSERT INTO room (name, beds, open) VALUES (:name, :beds, :open)');
    $ids = [];
    for ($i = 0; $i < 25; $i++) {
        $insert->bindValue('name', "r$i");
        $insert->bindValue('beds', 1 + $i % 4, PDO::PARAM_INT);
        $insert->bindValue('open', $i % 2 == 0, PDO::PARAM_BOOL);
        $insert->execute();
        $ids[] = $pdo->lastInsertId();
    }
    return $ids;
});
attempt('stays', function () use ($pdo) {
    $insert = $pdo->prepare("INSERT INTO stay VALUES (?, date '2024-01-01' + ?::int)");
    for ($i = 0; $i < 80; $i++) {
        $insert->execute([1 + $i % 25, $i]);
    }
    return $insert->rowCount();
});
foreach ([false, true] as $emulated) {
    $options = [PDO::ATTR_EMULATE_PREPARES => $emulated];
    attempt('rows', fn () => rows($pdo, 'SELECT id, name, open FROM room WHERE beds = :beds AND id < :id ORDER BY id', ['beds' => 2, 'id' => 15], $options));
    attempt('join', fn () => rows($pdo, 'SELECT name, count(*) AS n, min(night) FROM room JOIN stay ON room = id WHERE beds > ? GROUP BY name ORDER BY n DESC, name LIMIT 5', [1], $options));
    attempt('unique', fn () => rows($pdo, 'INSERT INTO room (name) VALUES (?)', ['r1'], $options));
    attempt('type', fn () => rows($pdo, 'SELECT * FROM room WHERE id = ?', ['x'], $options));
}
attempt('foreign', fn () => $pdo->exec("INSERT INTO stay VALUES (1000, '2024-01-01')"));
attempt('transaction', function () use ($pdo) {
    $pdo->beginTransaction();
    $pdo->exec('UPDATE room SET beds = beds + 1');
    $pdo->exec('SAVEPOINT a');
    $pdo->exec('DELETE FROM stay');
    $pdo->exec('ROLLBACK TO a');
    $pdo->commit();
    return rows($pdo, 'SELECT sum(beds), (SELECT count(*) FROM stay) AS stays FROM room');
});
attempt('scroll', function () use ($pdo) {
    $pdo->beginTransaction();
    $statement = $pdo->prepare('SELECT id FROM room ORDER BY id', [PDO::ATTR_CURSOR => PDO::CURSOR_SCROLL]);
    $statement->execute();
    $seen = [$statement->fetch(PDO::FETCH_NUM), $statement->fetch(PDO::FETCH_NUM, PDO::FETCH_ORI_LAST), $statement->fetch(PDO::FETCH_NUM, PDO::FETCH_ORI_PRIOR), $statement->fetch(PDO::FETCH_NUM, PDO::FETCH_ORI_ABS, 5)];
    $pdo->commit();
    return $seen;
});
attempt('bytes', function () use ($pdo) {
    $statement = $pdo->prepare('UPDATE room SET photo = ? WHERE id = 3');
    $statement->bindValue(1, "\0\1\xff", PDO::PARAM_LOB);
    $statement->execute();
    return bin2hex(stream_get_contents($pdo->query('SELECT photo FROM room WHERE id = 3')->fetchColumn()));
});
attempt('large object', function () use ($pdo) {
    $pdo->beginTransaction();
    $oid = $pdo->pgsqlLOBCreate();
    $stream = $pdo->pgsqlLOBOpen($oid, 'w');
    fwrite($stream, 'many bytes');
    fclose($stream);
    $text = stream_get_contents($pdo->pgsqlLOBOpen($oid, 'r'));
    $pdo->pgsqlLOBUnlink($oid);
    $pdo->commit();
    return $text;
});
attempt('copy', fn () => [$pdo->pgsqlCopyFromArray('stay', ["1\t2030-01-01", "2\t2030-01-02"]), count($pdo->pgsqlCopyToArray('stay'))]);
attempt('meta', fn () => array_map(fn ($i) => array_intersect_key($pdo->query('SELECT id, name, open, count(*) OVER () AS c FROM room')->getColumnMeta($i), ['native_type' => 1, 'name' => 1]), [0, 1, 2, 3]));
attempt('classes', fn () => $pdo->query('SELECT name, beds FROM room WHERE id < 4 ORDER BY id')->fetchAll(PDO::FETCH_KEY_PAIR));
attempt('notify', function () use ($pdo) {
    $pdo->exec('LISTEN bell');
    $pdo->exec("SELECT pg_notify('bell', 'ring')");
    $heard = $pdo->pgsqlGetNotify(PDO::FETCH_ASSOC, 5000);
    return [$heard['message'], $heard['payload']];
});
