-- Refuses a whole statement: a step's commit is one where it can be, since each round trip costs, and yet tests more
-- than one row.
create function sure(holds boolean, code text, message text) returns boolean
language plpgsql as $$
begin
  if holds is not true then
    raise exception using errcode = sure.code, message = sure.message;
  end if;
  return true;
end
$$;
