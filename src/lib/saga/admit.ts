import type { Place, PlaceLimits } from '../domain/places.ts';
import type { Sql } from '../ports.ts';
import type { Telling } from './tell.ts';

/** So many bulk operations go on in the thick of wakes, where nobody who is waited for wants the same place: a wave slows down. */
const BULK_ALWAYS = 2;

/**
 * Fills the free places with those that are next in order, and returns who must be told (migrations/0009 has the order
 * and the locks). A transaction of its own, behind the commit that gave a place back or wants one: what is missed when
 * the registry goes away between the two, whoever comes or ends next admits, or the sweep.
 */
export const admit = (sql: Sql, place: Place, limits: PlaceLimits): Promise<readonly Telling[]> =>
  sql.query<Telling & object>('select * from admit($1, $2, $3)', [place, limits[place], BULK_ALWAYS]);
