-- A planned slot on whose claims somebody else was seen has no owner, and is kept for a person to look at all the same.
alter table slot drop constraint held_names_its_owner;
alter table slot add constraint held_names_its_owner check (state <> 'held' or instance_id is not null);
