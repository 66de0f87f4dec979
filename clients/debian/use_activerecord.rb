# ActiveRecord: migrations, models with associations, enums, JSON, locking, upserts, batches, schema cache.
require 'active_record'

def attempt(label)
  result = yield
  return puts("#{label}: #{result.inspect}") unless result.is_a?(Array)

  puts "#{label}: #{result.size}"
  result.each { |row| puts "    #{row.inspect}" }
rescue StandardError => e
  puts "#{label}: ERROR #{e.class} #{e.message.lines.first.to_s.strip}"
end

ActiveRecord::Base.establish_connection(ARGV.last.sub('postgresql://', 'postgres://'))
ActiveRecord::Migration.verbose = false
DB = ActiveRecord::Base

class First < ActiveRecord::Migration[6.1]
  def change
    create_table(:authors) { |t| t.string :name, null: false; t.jsonb :meta, default: {}; t.string :tags, array: true; t.integer :books_count, default: 0; t.timestamps }
    create_table(:books) { |t| t.references :author, foreign_key: { on_delete: :cascade }; t.string :title; t.decimal :price, precision: 8, scale: 2; t.integer :state, default: 0; t.integer :lock_version, default: 0; t.date :day }
  end
end

class Second < ActiveRecord::Migration[6.1]
  def change
    add_index :authors, :name, unique: true
    add_index :books, 'lower(title)', unique: true, name: 'books_title'
    add_column :books, :isbn, :string
    add_index :books, :isbn, unique: true, where: 'isbn IS NOT NULL'
    create_join_table(:authors, :prizes) { |t| t.index %i[author_id prize_id], unique: true }
    create_table(:prizes, id: :uuid, default: 'gen_random_uuid()') { |t| t.string :name }
    change_column_null :books, :title, false
    add_check_constraint :books, 'price >= 0', name: 'price_check'
  end
end

class Author < DB
  has_many :books
  validates :name, presence: true
end

class Book < DB
  belongs_to :author, counter_cache: true
  enum state: { draft: 0, out: 1 }
end

attempt('first') { First.new.migrate(:up) ; nil }
attempt('second') { Second.new.migrate(:up); nil }
attempt('create') { (1..20).map { |i| a = Author.create!(name: "a#{i}", meta: { i: i }, tags: ["t#{i % 3}"]); [a.id, a.name] } }
attempt('books') { Author.order(:id).each_with_index { |a, i| (i % 4).times { |n| a.books.create!(title: "b#{i}-#{n}", price: i + n, day: Date.new(2024, 1, 1 + i)) } }; Book.count }
attempt('insert all') { Book.insert_all((1..30).map { |i| { title: "many #{i}", price: i, author_id: 1 + i % 20 } }).rows.size }
attempt('where') { Author.joins(:books).where('price > ?', 12).distinct.order(:id).pluck(:id, :name) }
attempt('includes') { Author.includes(:books).where(id: 1..5).order(:id).map { |a| [a.name, a.books.sort_by(&:id).map(&:title)] } }
attempt('eager') { Author.eager_load(:books).where(books: { state: :draft }).order('authors.id, books.id').limit(3).map { |a| [a.id, a.books.size] } }
attempt('group') { Book.group(:author_id).having('count(*) > 3').order(:author_id).sum(:price).to_a }
attempt('json') { Author.where("meta->>'i' = ?", '7').pluck(:name) }
attempt('array') { Author.where('? = ANY (tags)', 't1').order(:id).pluck(:id) }
attempt('calculations') { [Book.average(:price), Book.maximum(:day), Book.minimum(:price), Author.sum(:books_count)] }
attempt('update all') { Book.where('price < 5').update_all("state = 1, price = price + 1") }
attempt('upsert') { Author.upsert_all([{ name: 'a1', tags: ['up'], created_at: Time.at(0), updated_at: Time.at(0) }, { name: 'new', tags: [], created_at: Time.at(0), updated_at: Time.at(0) }], unique_by: :name, returning: %w[name]).rows }
attempt('duplicate') { Author.create!(name: 'a2') }
attempt('check') { Book.create!(title: 'x', price: -1, author_id: 1) }
attempt('stale') { a = Book.order(:id).first; b = Book.find(a.id); a.update!(price: 3); b.update!(price: 4) }
attempt('transaction') { DB.transaction { Author.find_by(name: 'a3').lock!.update!(name: 'locked'); DB.transaction(requires_new: true) { Book.delete_all; raise ActiveRecord::Rollback }; Book.count } }
attempt('isolation') { DB.transaction(isolation: :serializable) { Author.where(name: 'a4').update_all(name: 'a4!') } }
attempt('batches') { seen = []; Book.in_batches(of: 9) { |b| seen << b.pluck(:id).size }; seen }
attempt('find or create') { [Author.find_or_create_by!(name: 'a5').id, Author.create_or_find_by!(name: 'a5').id] }
attempt('subquery') { Author.where(id: Book.where('price > 15').select(:author_id)).order(:id).pluck(:name) }
attempt('exists') { [Author.exists?(name: 'a6'), Author.where.missing(:books).order(:id).pluck(:id)] }
attempt('destroy') { Author.find_by(name: 'a8').delete; Book.count }
attempt('tables') { DB.connection.tables.sort }
attempt('columns') { DB.connection.columns('books').map { |c| [c.name, c.sql_type, c.null, c.default] } }
attempt('indexes') { DB.connection.indexes('books').map { |i| [i.name, i.columns, i.unique, i.where] }.sort_by(&:first) }
attempt('keys') { DB.connection.foreign_keys('books').map { |k| [k.to_table, k.column, k.on_delete] } }
attempt('advisory lock') { [DB.connection.get_advisory_lock(42), DB.connection.release_advisory_lock(42)] }
attempt('down') { Second.new.migrate(:down); nil }
attempt('down again') { First.new.migrate(:down); nil }
