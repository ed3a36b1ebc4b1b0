"""Rows for TPC-H, made from a seed, in the manner of the specification's generator (clause 4.2).

The shapes that the 22 queries ask about are there: rows of each table, ranges of values, orders of
customers, dates that follow each other, the words that queries look for, two thirds of customers
with orders. Texts are made of the specification's words, not by its grammar. The same scale gives
the same rows.

Does not do: the exact rows of dbgen, so answers compare two servers here and with nothing else.
"""

import datetime
import random

TABLES = {
    "region": "r_regionkey int primary key, r_name char(25) not null, r_comment varchar(152)",
    "nation": "n_nationkey int primary key, n_name char(25) not null, n_regionkey int not null, "
              "n_comment varchar(152)",
    "supplier": "s_suppkey int primary key, s_name char(25) not null, s_address varchar(40) not null, "
                "s_nationkey int not null, s_phone char(15) not null, s_acctbal numeric(15,2) not null, "
                "s_comment varchar(101) not null",
    "part": "p_partkey int primary key, p_name varchar(55) not null, p_mfgr char(25) not null, "
            "p_brand char(10) not null, p_type varchar(25) not null, p_size int not null, "
            "p_container char(10) not null, p_retailprice numeric(15,2) not null, "
            "p_comment varchar(23) not null",
    "partsupp": "ps_partkey int not null, ps_suppkey int not null, ps_availqty int not null, "
                "ps_supplycost numeric(15,2) not null, ps_comment varchar(199) not null, "
                "primary key (ps_partkey, ps_suppkey)",
    "customer": "c_custkey int primary key, c_name varchar(25) not null, c_address varchar(40) not null, "
                "c_nationkey int not null, c_phone char(15) not null, c_acctbal numeric(15,2) not null, "
                "c_mktsegment char(10) not null, c_comment varchar(117) not null",
    "orders": "o_orderkey int primary key, o_custkey int not null, o_orderstatus char(1) not null, "
              "o_totalprice numeric(15,2) not null, o_orderdate date not null, "
              "o_orderpriority char(15) not null, o_clerk char(15) not null, "
              "o_shippriority int not null, o_comment varchar(79) not null",
    "lineitem": "l_orderkey int not null, l_partkey int not null, l_suppkey int not null, "
                "l_linenumber int not null, l_quantity numeric(15,2) not null, "
                "l_extendedprice numeric(15,2) not null, l_discount numeric(15,2) not null, "
                "l_tax numeric(15,2) not null, l_returnflag char(1) not null, "
                "l_linestatus char(1) not null, l_shipdate date not null, l_commitdate date not null, "
                "l_receiptdate date not null, l_shipinstruct char(25) not null, "
                "l_shipmode char(10) not null, l_comment varchar(44) not null, "
                "primary key (l_orderkey, l_linenumber)",
}
# Foreign keys of the specification that no primary key serves.
INDEXES = [("nation", "n_regionkey"), ("supplier", "s_nationkey"), ("partsupp", "ps_suppkey"),
           ("customer", "c_nationkey"), ("orders", "o_custkey"), ("lineitem", "l_partkey, l_suppkey"),
           ("lineitem", "l_suppkey"), ("orders", "o_orderdate"), ("lineitem", "l_shipdate")]

REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
NATIONS = [("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4),
           ("ETHIOPIA", 0), ("FRANCE", 3), ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4),
           ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4), ("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0),
           ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3), ("SAUDI ARABIA", 4), ("VIETNAM", 2),
           ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1)]
COLORS = """almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood
burnished chartreuse chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab
firebrick floral forest frosted gainsboro ghost goldenrod green grey honeydew hot indian ivory khaki
lace lavender lawn lemon light lime linen magenta maroon medium metallic midnight mint misty moccasin
navajo navy olive orange orchid pale papaya peach peru pink plum powder puff purple red rose rosy royal
saddle salmon sandy seashell sienna sky slate smoke snow spring steel tan thistle tomato turquoise
violet wheat white yellow""".split()
TYPES = [["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
         ["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"],
         ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"]]
CONTAINERS = [["SM", "LG", "MED", "JUMBO", "WRAP"],
              ["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"]]
SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"]
PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
INSTRUCTIONS = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]
MODES = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]
WORDS = """foxes ideas theodolites pinto beans instructions dependencies excuses platelets asymptotes
courts dolphins multipliers sauternes warthogs frets dinos attainments somas braids hockey players
sheaves patterns forges pearls sentiments packages requests accounts deposits special pending unusual
express furious sly careful blithe quick fluffy slow quiet ruthless thin close dogged daring brave
stealthy permanent enticing idle busy regular final ironic even bold silent sleep wake are cajole haggle
nag use boost affix detect integrate above about across after against along among around""".split()

FIRST = datetime.date(1992, 1, 1)
DAYS = [(FIRST + datetime.timedelta(days=day)).isoformat() for day in range(2_557)]
# The day that the specification calls today, 1995-06-17, and the last day of orders.
TODAY = (datetime.date(1995, 6, 17) - FIRST).days
LAST_ORDER = len(DAYS) - 152


class Maker:
    """Rows of all tables at a scale, each a list of texts."""

    def __init__(self, scale):
        self.suppliers = max(int(10_000 * scale), 40)
        self.parts = max(int(200_000 * scale), 200)
        self.customers = max(int(150_000 * scale), 150)
        self.orders = max(int(1_500_000 * scale), 1_500)
        # One long text, of which comments are pieces.
        source = random.Random(7)
        self.text = " ".join(source.choice(WORDS) for _ in range(60_000))

    def comment(self, source, least, most):
        length = least + int(source.random() * (most - least + 1))
        start = int(source.random() * (len(self.text) - length))
        return self.text[start:start + length].strip()

    def rows(self, table):
        return getattr(self, table)(random.Random(table)) if table != "orders" else self.order_rows()

    def region(self, source):
        for key, name in enumerate(REGIONS):
            yield [str(key), name, self.comment(source, 31, 115)]

    def nation(self, source):
        for key, (name, region) in enumerate(NATIONS):
            yield [str(key), name, str(region), self.comment(source, 31, 114)]

    @staticmethod
    def phone(source, nation):
        return (f"{nation + 10}-{source.randint(100, 999)}-{source.randint(100, 999)}-"
                f"{source.randint(1000, 9999)}")

    def supplier(self, source):
        for key in range(1, self.suppliers + 1):
            nation = source.randrange(25)
            comment = self.comment(source, 25, 70)
            # Five of 10,000 complain and five recommend, as in clause 4.2.3.
            if key % 2_000 == 13:
                comment += " Customer Complaints"
            elif key % 2_000 == 17:
                comment += " Customer Recommends"
            yield [str(key), f"Supplier#{key:09}", self.comment(source, 10, 40), str(nation),
                   self.phone(source, nation), f"{source.randint(-99999, 999999) / 100:.2f}", comment]

    @staticmethod
    def price(part):
        return 90_000 + part // 10 % 20_001 + 100 * (part % 1_000)

    def part(self, source):
        for key in range(1, self.parts + 1):
            maker = source.randint(1, 5)
            yield [str(key), " ".join(source.sample(COLORS, 5)), f"Manufacturer#{maker}",
                   f"Brand#{maker}{source.randint(1, 5)}", " ".join(map(source.choice, TYPES)),
                   str(source.randint(1, 50)), " ".join(map(source.choice, CONTAINERS)),
                   f"{self.price(key) / 100:.2f}", self.comment(source, 5, 22)]

    def supplier_of(self, part, which):
        """The specification's way to spread the four suppliers of a part."""
        every = self.suppliers
        return (part + which * (every // 4 + (part - 1) // every)) % every + 1

    def partsupp(self, source):
        for part in range(1, self.parts + 1):
            for which in range(4):
                yield [str(part), str(self.supplier_of(part, which)), str(source.randint(1, 9_999)),
                       f"{source.randint(100, 100_000) / 100:.2f}", self.comment(source, 49, 198)]

    def customer(self, source):
        for key in range(1, self.customers + 1):
            nation = source.randrange(25)
            yield [str(key), f"Customer#{key:09}", self.comment(source, 10, 40), str(nation),
                   self.phone(source, nation), f"{source.randint(-99999, 999999) / 100:.2f}",
                   source.choice(SEGMENTS), self.comment(source, 29, 116)]

    def each_order(self):
        """Orders with their lines. Keys are sparse, and every third customer has none."""
        source = random.Random("orders")
        chance = source.random
        for number in range(self.orders):
            key = number // 8 * 32 + number % 8 + 1
            customer = int(chance() * self.customers) + 1
            if customer % 3 == 0:
                customer += 1 if customer < self.customers else -1
            ordered = int(chance() * LAST_ORDER)
            lines, total, shipped = [], 0, 0
            count = int(chance() * 7) + 1
            for line in range(1, count + 1):
                part = int(chance() * self.parts) + 1
                quantity = int(chance() * 50) + 1
                price = quantity * self.price(part)
                discount, tax = int(chance() * 11), int(chance() * 9)
                ship = ordered + int(chance() * 121) + 1
                commit = ordered + int(chance() * 61) + 30
                receipt = ship + int(chance() * 30) + 1
                total += price * (100 + tax) * (100 - discount) // 10_000
                is_open = ship > TODAY
                shipped += not is_open
                returned = ("R" if chance() < 0.5 else "A") if receipt <= TODAY else "N"
                lines.append([
                    str(key), str(part), str(self.supplier_of(part, int(chance() * 4))), str(line),
                    str(quantity), f"{price / 100:.2f}", f"0.{discount:02}", f"0.{tax:02}", returned,
                    "O" if is_open else "F", DAYS[ship], DAYS[commit], DAYS[receipt],
                    INSTRUCTIONS[int(chance() * 4)], MODES[int(chance() * 7)],
                    self.comment(source, 10, 43)])
            status = "F" if shipped == count else "O" if shipped == 0 else "P"
            comment = self.comment(source, 19, 78)
            yield [str(key), str(customer), status, f"{total / 100:.2f}", DAYS[ordered],
                   PRIORITIES[int(chance() * 5)],
                   f"Clerk#{int(chance() * max(self.orders // 1_500, 1)) + 1:09}", "0", comment], lines

    def order_rows(self):
        return (order for order, _ in self.each_order())

    def lineitem(self, _source):
        return (line for _, lines in self.each_order() for line in lines)
