"""A shop, as it is after its second migration: renamed, retyped and computed columns, a check, an
index over some rows, one on an expression, a table of its own."""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower


class Label(models.Model):
    name = models.CharField(max_length=40, unique=True)
    slug = models.SlugField(default="")

    def __str__(self):
        return self.name


class Customer(models.Model):
    name = models.CharField(max_length=200, db_index=True)
    mail = models.EmailField(unique=True)
    data = models.JSONField(default=dict)
    tags = ArrayField(models.CharField(max_length=20), default=list)

    class Meta:
        indexes = [models.Index(Lower("name"), name="customer_lower_name")]

    def __str__(self):
        return self.name


class Order(models.Model):
    customer = models.ForeignKey(Customer, on_delete=models.CASCADE, related_name="orders")
    labels = models.ManyToManyField(Label)
    remark = models.TextField(blank=True)
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    taxed = models.GeneratedField(
        expression=F("amount") * 2,
        output_field=models.DecimalField(max_digits=12, decimal_places=2),
        db_persist=True,
    )
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(amount__gte=0), name="amount_is_no_debt")]
        indexes = [models.Index(fields=["-amount"], condition=Q(remark=""), name="order_plain")]


class Parcel(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    order = models.OneToOneField(Order, on_delete=models.PROTECT)
    sent = models.DurationField(null=True)
    weight = models.FloatField(default=0.5)
    day = models.DateField(null=True)
    photo = models.BinaryField(default=b"")
