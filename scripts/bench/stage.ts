// npm run bench:stage: open loop of stagings without a backup, then a bare script (DELETE by uid → the next gated pod is
// there) with everything of Warren's stopped; one JSON line.
import { benchLife } from './life/run.ts';

console.log(JSON.stringify(await benchLife('stage')));
