"""Django: migrations forward and back over rows, admin pages, inspectdb, fixtures, and queries with
joins: `check_django.py PORT DATABASE`, on an empty database."""

import io
import sys
import tempfile
from datetime import timedelta
from decimal import Decimal

import django
from django.conf import settings
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.db.models import Avg, Count, F, OuterRef, Prefetch, Q, Subquery, Sum, Window
from django.db.models.functions import Lower, RowNumber, TruncDay

APPS = ["admin", "auth", "contenttypes", "sessions", "messages"]
TEMPLATES = {
    "BACKEND": "django.template.backends.django.DjangoTemplates",
    "APP_DIRS": True,
    "OPTIONS": {
        "context_processors": [
            "django.template.context_processors.request",
            "django.contrib.auth.context_processors.auth",
            "django.contrib.messages.context_processors.messages",
        ]
    },
}


def configure(port, database):
    settings.configure(
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": database,
                "USER": "rightlink",
                "HOST": "127.0.0.1",
                "PORT": port,
            }
        },
        INSTALLED_APPS=[f"django.contrib.{app}" for app in APPS] + ["django.contrib.postgres", "shop"],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        TEMPLATES=[TEMPLATES],
        ROOT_URLCONF="urls",
        SECRET_KEY="of a check",
        ALLOWED_HOSTS=["testserver"],
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()


def said(*command, **options):
    """The output of a command."""
    out = io.StringIO()
    call_command(*command, stdout=out, **options)
    return out.getvalue()


def migrations():
    """Forward over rows that were there before, back, and forward again."""
    said("migrate", "shop", "0001")
    with connection.cursor() as cursor:
        cursor.execute("insert into shop_customer (name, mail, data) values ('Ann', 'a@x', '{}') returning id")
        own = cursor.fetchone()[0]
        cursor.execute(
            "insert into shop_order (customer_id, note, amount, at) values (%s, 'first', 5, now())", [own]
        )
    assert "Applying shop.0002" in said("migrate")
    from shop.models import Order

    order = Order.objects.get()
    assert (order.remark, order.amount, order.taxed) == ("first", Decimal("5.00"), Decimal("10.00"))
    said("migrate", "shop", "0001")
    with connection.cursor() as cursor:
        cursor.execute("select note, amount from shop_order")
        assert cursor.fetchall() == [("first", 5)]
    said("migrate")
    assert "No changes detected" in said("makemigrations", check=True, dry_run=True)
    assert "[ ]" not in said("showmigrations")
    order = Order.objects.get()
    assert order.taxed == Decimal("10.00")
    order.customer.delete()
    assert Order.objects.count() == 0


def rows():
    """Rows with joins, and what refuses some."""
    from shop.models import Customer, Label, Order, Parcel

    labels = Label.objects.bulk_create([Label(name=name) for name in ["red", "big", "new"]])
    people = [Customer(name=f"Person {n}", mail=f"{n}@x", data={"n": n, "k": [n, {"deep": n % 2}]}, tags=["t", str(n % 3)]) for n in range(20)]
    Customer.objects.bulk_create(people)
    for person in people:
        for n in range(3):
            order = Order.objects.create(customer=person, amount=Decimal(n) + Decimal("0.5"))
            order.labels.add(labels[n])
    counted = Customer.objects.annotate(n=Count("orders"), total=Sum("orders__amount")).order_by("id")
    assert [(one.n, one.total) for one in counted] == [(3, Decimal("4.50"))] * 20
    red = Order.objects.filter(labels__name="red").select_related("customer").order_by("customer__id")
    assert [order.customer.mail for order in red] == [f"{n}@x" for n in range(20)]
    assert Customer.objects.filter(data__k__1__deep=1, data__n__gt=10).count() == 5
    assert Customer.objects.filter(data__contains={"n": 4}).get().name == "Person 4"
    assert Customer.objects.filter(tags__contains=["2"]).count() == 6
    assert Customer.objects.filter(name__icontains="SON 1").count() == 11
    assert Customer.objects.filter(name__startswith="Person 1").count() == 11
    assert Customer.objects.filter(name__iregex=r"^person 1\d$").count() == 10
    assert Customer.objects.annotate(low=Lower("name")).filter(low="person 7").exists()
    newest = Order.objects.filter(customer=OuterRef("pk")).order_by("-id").values("amount")[:1]
    assert {one.last for one in Customer.objects.annotate(last=Subquery(newest))} == {Decimal("2.50")}
    numbered = Order.objects.annotate(
        n=Window(RowNumber(), partition_by="customer", order_by=F("amount").desc())
    ).filter(n=1)
    assert numbered.count() == 20
    every = Customer.objects.prefetch_related(Prefetch("orders", Order.objects.order_by("id")), "orders__labels")
    assert sum(len(order.labels.all()) for one in every for order in one.orders.all()) == 60
    days = Order.objects.annotate(day=TruncDay("at")).values("day").annotate(n=Count("id"))
    assert sum(day["n"] for day in days) == 60
    assert Order.objects.aggregate(a=Avg("amount"), t=Sum("taxed")) == {"a": Decimal("1.5"), "t": Decimal("180")}
    assert Order.objects.filter(Q(amount__lt=1) | Q(labels__name="new")).distinct().count() == 40
    assert Order.objects.filter(amount__lt=1).update(amount=F("amount") + 10) == 20
    assert Order.objects.filter(taxed=21).count() == 20
    both = Order.objects.filter(amount__gt=10).values("id").union(Order.objects.filter(amount=2.5).values("id"))
    assert both.count() == 40
    parcel = Parcel.objects.create(order=red[0], sent=timedelta(hours=30, microseconds=5), photo=b"\0\1")
    again = Parcel.objects.get(pk=parcel.pk)
    assert (again.sent, bytes(again.photo)) == (timedelta(hours=30, microseconds=5), b"\0\1")
    one, made = Label.objects.get_or_create(name="red")
    assert not made and one.pk == labels[0].pk
    _, made = Label.objects.update_or_create(name="old", defaults={"slug": "o"})
    assert made
    Label.objects.bulk_create(
        [Label(name="old", slug="changed")], update_conflicts=True, unique_fields=["name"], update_fields=["slug"]
    )
    assert Label.objects.get(name="old").slug == "changed"
    page = list(Order.objects.order_by("-amount", "id")[10:20].iterator())
    assert len(page) == 10


def refused(work):
    """The statement fails in a savepoint of its own, and the transaction goes on."""
    try:
        with transaction.atomic():
            work()
    except IntegrityError:
        return
    raise AssertionError("nothing was refused")


def constraints():
    """Unique keys, foreign keys and checks, locks, and transactions that are taken back."""
    from django.db.models import ProtectedError
    from shop.models import Customer, Label, Order

    with transaction.atomic():
        refused(lambda: Label.objects.create(name="red"))
        refused(lambda: Order.objects.create(customer=Customer.objects.first(), amount=-1))
        refused(lambda: Customer.objects.create(name=None, mail="new@x"))
        assert Label.objects.filter(name="red").count() == 1
    try:
        with transaction.atomic():
            # Foreign keys are checked when the transaction commits.
            Order.objects.create(customer_id=999_999, amount=1)
    except IntegrityError:
        pass
    else:
        raise AssertionError("nothing was refused")
    try:
        Order.objects.filter(parcel__isnull=False).first().delete()
    except ProtectedError:
        pass
    else:
        raise AssertionError("nothing was refused")
    before = Label.objects.count()
    try:
        with transaction.atomic():
            Label.objects.create(name="gone")
            locked = Label.objects.select_for_update(skip_locked=True).filter(name="red").get()
            locked.slug = "locked"
            locked.save()
            raise ValueError
    except ValueError:
        pass
    assert Label.objects.count() == before and Label.objects.get(name="red").slug == ""


def pages():
    """The admin pages of the shop."""
    from django.contrib.auth.models import User
    from django.test import Client
    from shop.models import Customer, Label

    User.objects.create_superuser("root", "r@x", "secret")
    client = Client()
    assert client.login(username="root", password="secret")
    assert b"Orders" in client.get("/admin/").content
    found = client.get("/admin/shop/customer/?q=person+1").content
    assert b'field-mail">12@x' in found and b'field-mail">2@x' not in found
    assert client.get("/admin/shop/order/").status_code == 200
    assert client.get("/admin/auth/user/").status_code == 200
    answer = client.post("/admin/shop/label/add/", {"name": "by admin", "slug": "s"})
    assert answer.status_code == 302, answer.content
    label = Label.objects.get(name="by admin")
    answer = client.post(f"/admin/shop/label/{label.pk}/change/", {"name": "by admin", "slug": "t"})
    assert answer.status_code == 302 and Label.objects.get(pk=label.pk).slug == "t"
    answer = client.post("/admin/shop/label/add/", {"name": "by admin", "slug": "s"})
    assert b"already exists" in answer.content
    answer = client.post(f"/admin/shop/label/{label.pk}/delete/", {"post": "yes"})
    assert answer.status_code == 302 and not Label.objects.filter(pk=label.pk).exists()
    person = Customer.objects.get(mail="3@x")
    assert b"3@x" in client.get(f"/admin/shop/customer/{person.pk}/change/").content
    assert client.get(f"/admin/shop/customer/{person.pk}/history/").status_code == 200


def introspection():
    """The models that inspectdb makes of the tables."""
    text = said("inspectdb")
    for line in [
        "class ShopOrder(models.Model):",
        "customer = models.ForeignKey(ShopCustomer, models.DO_NOTHING)",
        "amount = models.DecimalField(max_digits=12, decimal_places=2)",
        "data = models.JSONField()",
        "mail = models.CharField(unique=True, max_length=254)",
        "order = models.OneToOneField(ShopOrder, models.DO_NOTHING)",
        "unique_together = (('order', 'label'),)",
        "name = models.CharField(unique=True, max_length=40)",
        "id = models.UUIDField(primary_key=True)",
        "sent = models.DurationField(blank=True, null=True)",
        "username = models.CharField(unique=True, max_length=150)",
    ]:
        assert line in text, line
    assert "unable to" not in text.lower(), text
    with connection.cursor() as cursor:
        known = connection.introspection.get_constraints(cursor, "shop_order")
    assert known["amount_is_no_debt"]["check"]
    assert known["order_plain"]["orders"] == ["DESC"]


def fixtures():
    """Rows written to a file and read again, and tables emptied with their sequences."""
    from shop.models import Customer, Order

    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        said("dumpdata", "shop", output=file.name)
        before = list(Order.objects.order_by("id").values_list("id", "amount", "taxed", "customer__name"))
        said("flush", interactive=False)
        assert Customer.objects.count() == 0
        said("loaddata", file.name)
    assert list(Order.objects.order_by("id").values_list("id", "amount", "taxed", "customer__name")) == before
    # Sequences stand behind the rows that were read.
    fresh = Customer.objects.create(name="Last", mail="last@x")
    assert fresh.pk > max(Customer.objects.exclude(pk=fresh.pk).values_list("pk", flat=True))


def main():
    configure(*sys.argv[1:3])
    migrations()
    rows()
    constraints()
    pages()
    introspection()
    fixtures()
    said("migrate", "shop", "zero")
    assert not [name for name in connection.introspection.table_names() if name.startswith("shop_")]
    print(f"Django {django.__version__}: migrations, rows, admin, inspectdb, fixtures")


main()
