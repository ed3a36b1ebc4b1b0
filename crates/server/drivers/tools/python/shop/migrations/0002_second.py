"""Columns renamed, retyped and added, with a check and indexes of their own."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.text
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('shop', '0001_initial'),
    ]

    operations = [
        migrations.RenameField(
            model_name='order',
            old_name='note',
            new_name='remark',
        ),
        migrations.AlterField(
            model_name='order',
            name='amount',
            field=models.DecimalField(decimal_places=2, max_digits=12),
        ),
        migrations.CreateModel(
            name='Parcel',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('sent', models.DurationField(null=True)),
                ('weight', models.FloatField(default=0.5)),
                ('day', models.DateField(null=True)),
                ('photo', models.BinaryField(default=b'')),
            ],
        ),
        migrations.AddField(
            model_name='customer',
            name='tags',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=20), default=list, size=None),
        ),
        migrations.AddField(
            model_name='label',
            name='slug',
            field=models.SlugField(default=''),
        ),
        migrations.AddField(
            model_name='order',
            name='taxed',
            field=models.GeneratedField(db_persist=True, expression=django.db.models.expressions.CombinedExpression(models.F('amount'), '*', models.Value(2)), output_field=models.DecimalField(decimal_places=2, max_digits=12)),
        ),
        migrations.AlterField(
            model_name='customer',
            name='name',
            field=models.CharField(db_index=True, max_length=200),
        ),
        migrations.AddIndex(
            model_name='customer',
            index=models.Index(django.db.models.functions.text.Lower('name'), name='customer_lower_name'),
        ),
        migrations.AddIndex(
            model_name='order',
            index=models.Index(condition=models.Q(('remark', '')), fields=['-amount'], name='order_plain'),
        ),
        migrations.AddConstraint(
            model_name='order',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gte', 0)), name='amount_is_no_debt'),
        ),
        migrations.AddField(
            model_name='parcel',
            name='order',
            field=models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, to='shop.order'),
        ),
    ]
