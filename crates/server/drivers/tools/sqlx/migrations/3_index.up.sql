-- no-transaction
create index concurrently by_title on thing (title, owner_id);
