"""Pages of the shop's tables."""

from django.contrib import admin

from .models import Customer, Label, Order


class Orders(admin.TabularInline):
    model = Order


@admin.register(Customer)
class CustomerAdmin(admin.ModelAdmin):
    list_display = ["name", "mail"]
    list_filter = ["name"]
    search_fields = ["name", "mail"]
    inlines = [Orders]


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    list_display = ["customer", "amount", "at"]
    date_hierarchy = "at"


admin.site.register(Label)
