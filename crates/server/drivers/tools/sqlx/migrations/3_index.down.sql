drop index by_title;
