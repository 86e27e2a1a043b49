import { PLACES, type PlaceLimits } from '../domain/places.ts';
import type { Database } from '../ports.ts';
import { admit } from '../saga/admit.ts';
import type { Telling } from '../saga/tell.ts';

/** Behind the commits that give places back: after a limit was raised, or when whoever was next ended unadmitted. */
export async function admitAll(db: Database, limits: PlaceLimits): Promise<readonly Telling[]> {
  const admitted: Telling[] = [];
  for (const place of PLACES) admitted.push(...(await admit(db, place, limits)));
  return admitted;
}
