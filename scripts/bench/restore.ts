// npm run bench:restore: open loop of wakes of staged instances, then a bare script (PATCH that opens the gate → Ready)
// with everything of Warren's stopped; one JSON line.
import { benchLife } from './life/run.ts';

console.log(JSON.stringify(await benchLife('restore')));
