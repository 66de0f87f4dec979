# ruby-pg: parameters, prepared statements, pipelines, COPY, errors, notifications.
require 'pg'

def attempt(label)
  result = yield
  result = result.values if result.is_a?(PG::Result)
  return puts("#{label}: #{result.inspect}") unless result.is_a?(Array)

  puts "#{label}: #{result.size}"
  result.each { |row| puts "    #{row.inspect}" }
rescue PG::Error => e
  state = e.respond_to?(:result) && e.result ? e.result.error_field(PG::Result::PG_DIAG_SQLSTATE) : e.class
  puts "#{label}: ERROR #{state} #{e.message.lines.first.strip}"
end

conn = PG.connect(ARGV.last)
conn.type_map_for_results = PG::BasicTypeMapForResults.new(conn)
conn.exec('CREATE TABLE song (id serial PRIMARY KEY, name text UNIQUE, length interval, year int, tags text[])')
conn.exec('CREATE TABLE play (song int REFERENCES song, at int)')
attempt('insert') { (1..30).map { |i| conn.exec_params('INSERT INTO song (name, length, year, tags) VALUES ($1, $2, $3, $4) RETURNING id, name', ["s#{i}", "#{i} minutes", 1980 + i % 7, "{a,b#{i}}"]).values[0] } }
attempt('prepare') { conn.prepare('play', 'INSERT INTO play VALUES ($1::int, $2::int)').cmd_status }
attempt('plays') { (0..99).sum { |i| conn.exec_prepared('play', [1 + i % 30, i]).cmd_tuples } }
attempt('rows') { conn.exec_params('SELECT id, name, length, tags FROM song WHERE year = $1 ORDER BY id', [1983]) }
attempt('binary') { conn.exec_params('SELECT id, year FROM song WHERE id < 4 ORDER BY id', [], 1) }
attempt('join') { conn.exec('SELECT name, count(*), max(at) FROM song JOIN play ON song = id GROUP BY name ORDER BY 2 DESC, 1 LIMIT 4') }
attempt('described') { d = conn.describe_prepared('play'); [d.nparams, d.paramtype(0)] }
attempt('fields') { conn.exec('SELECT id, name AS n, year + 1 AS next FROM song LIMIT 0').fields }
attempt('unique') { conn.exec("INSERT INTO song (name) VALUES ('s1')") }
attempt('foreign') { conn.exec('INSERT INTO play VALUES (1000, 1)') }
attempt('transaction') { conn.transaction { |c| c.exec('UPDATE play SET at = at + 1'); c.exec('SELECT sum(at) FROM play').values } }
attempt('rolled back') { conn.transaction { |c| c.exec('DELETE FROM play'); c.exec('SELECT 1/0') } }
attempt('count') { conn.exec('SELECT count(*) FROM play') }
attempt('copy in') do
  conn.copy_data('COPY play FROM STDIN') { 50.times { |i| conn.put_copy_data("#{1 + i % 30}\t#{1000 + i}\n") } }
  conn.exec('SELECT count(*), sum(at) FROM play WHERE at >= 1000')
end
attempt('copy out') do
  lines = []
  conn.copy_data('COPY (SELECT id, name FROM song WHERE id < 4 ORDER BY id) TO STDOUT CSV') { while (line = conn.get_copy_data) do lines << line end }
  lines
end
attempt('single rows') { conn.send_query('SELECT id FROM song ORDER BY id'); conn.set_single_row_mode; seen = []; conn.get_result.stream_each { |row| seen << row['id'] }; while conn.get_result do end; [seen.size, seen.last] }
attempt('several') { conn.send_query('SELECT 1; SELECT count(*) FROM song; DROP TABLE nosuch'); seen = []; while (r = conn.get_result) do seen << [r.result_status, (r.error_field(PG::Result::PG_DIAG_SQLSTATE) if r.result_status == 7)] end; seen }
attempt('pipeline') { conn.enter_pipeline_mode; 3.times { |i| conn.send_query_params('SELECT name FROM song WHERE id = $1', [i + 1]) }; conn.pipeline_sync; seen = []; 3.times { r = conn.get_result; seen << r.values[0]; conn.get_result }; conn.get_result; conn.exit_pipeline_mode; seen }
attempt('listen') { conn.exec('LISTEN ears'); other = PG.connect(ARGV.last); other.exec("NOTIFY ears, 'hear'"); heard = []; conn.wait_for_notify(5) { |channel, _pid, payload| heard = [channel, payload] }; heard }
attempt('encoding') { conn.set_client_encoding('LATIN1'); r = conn.exec("SELECT 'caf' || chr(233)").getvalue(0, 0); conn.set_client_encoding('UTF8'); [r.encoding.to_s, r.bytesize] }
