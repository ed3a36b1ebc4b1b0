import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.util.Map;
import liquibase.Contexts;
import liquibase.LabelExpression;
import liquibase.Liquibase;
import liquibase.Scope;
import liquibase.database.Database;
import liquibase.database.DatabaseFactory;
import liquibase.database.jvm.JdbcConnection;
import liquibase.diff.DiffGeneratorFactory;
import liquibase.diff.DiffResult;
import liquibase.diff.compare.CompareControl;
import liquibase.diff.output.DiffOutputControl;
import liquibase.diff.output.changelog.DiffToChangeLog;
import liquibase.exception.LiquibaseException;
import liquibase.resource.DirectoryResourceAccessor;
import liquibase.snapshot.DatabaseSnapshot;
import liquibase.snapshot.SnapshotControl;
import liquibase.snapshot.SnapshotGeneratorFactory;
import liquibase.structure.core.Column;
import liquibase.structure.core.ForeignKey;
import liquibase.structure.core.Index;
import liquibase.structure.core.Table;

/**
 * Liquibase: change sets forward and back, status, a failed one, tags, snapshots, a change log made
 * of tables and run again, differences: `CheckLiquibase PORT DATABASE`, on an empty database.
 */
public final class CheckLiquibase {
    private static final String CHANGES = """
            <databaseChangeLog xmlns="http://www.liquibase.org/xml/ns/dbchangelog"
              xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
              xsi:schemaLocation="http://www.liquibase.org/xml/ns/dbchangelog
                http://www.liquibase.org/xml/ns/dbchangelog/dbchangelog-latest.xsd">
              %s
            </databaseChangeLog>
            """;
    private static final String FIRST = """
            <changeSet id="1" author="a">
              <createTable tableName="customer" remarks="those who buy">
                <column name="id" type="int" autoIncrement="true">
                  <constraints primaryKey="true"/>
                </column>
                <column name="name" type="varchar(80)">
                  <constraints nullable="false" unique="true" uniqueConstraintName="customer_name"/>
                </column>
                <column name="since" type="timestamp with time zone" defaultValueComputed="now()"/>
                <column name="vip" type="boolean" defaultValueBoolean="false"/>
              </createTable>
            </changeSet>
            <changeSet id="2" author="a">
              <createTable tableName="purchase">
                <column name="id" type="bigint" autoIncrement="true">
                  <constraints primaryKey="true"/>
                </column>
                <column name="customer_id" type="int">
                  <constraints nullable="false" foreignKeyName="purchase_customer"
                    references="customer(id)"/>
                </column>
                <column name="amount" type="decimal(10,2)"/>
                <column name="picture" type="blob"/>
                <column name="mark" type="uuid"/>
              </createTable>
              <createIndex tableName="purchase" indexName="purchase_amount">
                <column name="amount" descending="true"/>
              </createIndex>
              <loadData tableName="customer" file="customers.csv"/>
              <insert tableName="purchase">
                <column name="customer_id" valueNumeric="1"/>
                <column name="amount" valueNumeric="12.50"/>
              </insert>
            </changeSet>
            """;
    private static final String SECOND = """
            <changeSet id="3" author="a">
              <addColumn tableName="customer">
                <column name="mail" type="text"/>
              </addColumn>
              <renameColumn tableName="purchase" oldColumnName="amount" newColumnName="price"/>
              <modifyDataType tableName="customer" columnName="name" newDataType="varchar(200)"/>
              <rollback>
                <dropColumn tableName="customer" columnName="mail"/>
                <renameColumn tableName="purchase" oldColumnName="price" newColumnName="amount"/>
              </rollback>
            </changeSet>
            <changeSet id="4" author="a">
              <preConditions onFail="MARK_RAN">
                <not><tableExists tableName="customer"/></not>
              </preConditions>
              <createTable tableName="never"><column name="a" type="int"/></createTable>
              <rollback/>
            </changeSet>
            <changeSet id="5" author="a" runInTransaction="false">
              <createSequence sequenceName="number" startValue="100" incrementBy="5"/>
              <createView viewName="dear">select id, price from purchase where price &gt; 10</createView>
              <addUniqueConstraint tableName="purchase" columnNames="mark" constraintName="purchase_mark"/>
              <addDefaultValue tableName="purchase" columnName="price" defaultValueNumeric="1"/>
              <addNotNullConstraint tableName="purchase" columnName="price"/>
            </changeSet>
            <changeSet id="6" author="a">
              <sql splitStatements="false">do $$ begin if exists (select from customer) then
                update customer set vip = true where id = 1; end if; end $$</sql>
              <rollback/>
            </changeSet>
            """;
    private static Path folder;
    private static Check check;

    /** Works with a change log of these changes. */
    interface Work {
        void run(Liquibase liquibase) throws Exception;
    }

    private static void with(String changes, Work work) throws Exception {
        Files.writeString(folder.resolve("changes.xml"), CHANGES.formatted(changes));
        withFile("changes.xml", work);
    }

    private static void withFile(String file, Work work) throws Exception {
        try (Connection connection = check.connect()) {
            Database database = DatabaseFactory.getInstance()
                    .findCorrectDatabaseImplementation(new JdbcConnection(connection));
            Scope.child(Map.of(Scope.Attr.ui.name(), new liquibase.ui.LoggerUIService()), () ->
                    work.run(new Liquibase(file, new DirectoryResourceAccessor(folder), database)));
        }
    }

    private static final Contexts ALL = new Contexts();
    private static final LabelExpression ANY = new LabelExpression();

    private static void forward() throws Exception {
        with(FIRST, liquibase -> {
            Check.equal(liquibase.listUnrunChangeSets(ALL, ANY).size(), 2);
            liquibase.update(ALL, ANY);
            Check.equal(liquibase.listUnrunChangeSets(ALL, ANY).size(), 0);
            liquibase.tag("one");
        });
        Check.equal(check.rows("select c.name, p.amount from customer c join purchase p"
                + " on p.customer_id = c.id"), "[Ann, A.|12.50]");
        with(FIRST + SECOND, liquibase -> {
            StringWriter sql = new StringWriter();
            liquibase.update(ALL, ANY, sql);
            Check.that(sql.toString().contains("RENAME amount TO price")
                    || sql.toString().contains("RENAME COLUMN amount TO price"), sql.toString());
            liquibase.update(ALL, ANY);
            liquibase.validate();
        });
        Check.equal(check.rows("select price from dear"), "[12.50]");
        Check.equal(check.rows("select nextval('number'), nextval('number')"), "[100|105]");
        Check.equal(check.rows("select name from customer where vip order by id"), "[Ann, A., Bea]");
        Check.equal(check.rows("select to_regclass('never')"), "[null]");
        with(FIRST + SECOND, liquibase -> {
            liquibase.rollback(4, ALL, ANY);
            Check.equal(liquibase.listUnrunChangeSets(ALL, ANY).size(), 4);
            liquibase.update(ALL, ANY);
        });
    }

    private static void failure() throws Exception {
        String broken = "<changeSet id=\"9\" author=\"a\"><createTable tableName=\"half\">"
                + "<column name=\"a\" type=\"int\"/></createTable>"
                + "<sql>insert into nothing values (1)</sql></changeSet>";
        with(FIRST + SECOND + broken, liquibase ->
                Check.fails(LiquibaseException.class, () -> liquibase.update(ALL, ANY)));
        Check.equal(check.rows("select to_regclass('half')"), "[null]");
        Check.equal(check.rows("select locked from databasechangeloglock"), "[f]");
    }

    private static DatabaseSnapshot snapshot(Database database) throws Exception {
        return SnapshotGeneratorFactory.getInstance().createSnapshot(
                database.getDefaultSchema(), database, new SnapshotControl(database));
    }

    /** Tables as they are told, and a change log of them that makes the same again. */
    private static void snapshots() throws Exception {
        Path made = folder.resolve("made.xml");
        with(FIRST + SECOND, liquibase -> {
            DatabaseSnapshot found = snapshot(liquibase.getDatabase());
            Column name = found.get(new Column(Table.class, null, null, "customer", "name"));
            Check.equal(name.getType().getTypeName() + name.getType().getColumnSize(), "varchar200");
            Check.equal(name.isNullable(), false);
            Check.equal(found.get(ForeignKey.class).size(), 1);
            Check.that(found.get(Index.class).stream().anyMatch(
                    index -> "purchase_amount".equals(index.getName())
                            && index.getColumns().get(0).getDescending()), "a descending index");
            Table customer = found.get(Table.class).stream()
                    .filter(table -> table.getName().equals("customer")).findFirst().orElseThrow();
            Check.equal(customer.getRemarks(), "those who buy");
            DiffResult all = DiffGeneratorFactory.getInstance().compare(
                    found, null, CompareControl.STANDARD);
            DiffToChangeLog log = new DiffToChangeLog(
                    all, new DiffOutputControl(false, false, false, null));
            log.setChangeSetAuthor("made");
            log.print(made.toString());
            liquibase.dropAll();
            Check.equal(check.rows("select count(*) from pg_class where relnamespace = 2200"), "[0]");
            withFile("made.xml", again -> {
                again.update(ALL, ANY);
                DatabaseSnapshot after = snapshot(again.getDatabase());
                DiffResult diff = DiffGeneratorFactory.getInstance().compare(
                        found, after, CompareControl.STANDARD);
                Check.that(diff.areEqual(), diff.getMissingObjects() + " "
                        + diff.getUnexpectedObjects() + " " + diff.getChangedObjects());
                again.dropAll();
            });
        });
    }

    public static void main(String[] args) throws Exception {
        check = new Check(args);
        folder = Files.createTempDirectory("liquibase");
        Files.writeString(folder.resolve("customers.csv"), "name,vip\n\"Ann, A.\",false\nBea,true\n");
        forward();
        failure();
        snapshots();
        System.out.println("Liquibase: change sets forward and back, a failure, snapshots, differences");
    }
}
