-- Who waits for a pod to end is woken when it has ended or its successor waits behind its gate, not when it begins to go.
alter table operation drop constraint operation_wait_for_check;
alter table operation add constraint operation_wait_for_check check (wait_for in ('any', 'settled', 'ended'));
