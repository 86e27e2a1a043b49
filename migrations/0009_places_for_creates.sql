-- Creates start pods like restores do: a flood of them opens so many gates at once, and no more.
insert into place (name) values ('create');
