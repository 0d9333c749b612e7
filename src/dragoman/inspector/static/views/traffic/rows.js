// The rows of the traffic that the page holds: a window on what the backend keeps, which grows at both ends.
//
// The backend filters, because only it has the whole messages. An event of the socket is only a bell: rows are always
// fetched, so that a row is never lost between the socket and a filter. When more rows have come than are worth fetching,
// the window starts again at the newest, and says so.

import { ask } from "../../page/backend.js";

const PAGE = 200;
const OLDER = 1_000;
const NEWER = 1_000;
const FARTHEST = 3_000;
const MOST = 20_000;

export class Rows {
    constructor(onchange) {
        this.onchange = onchange;
        this.query = {};
        this.asked = 0;
        this.answered = 0;
        this.isBusy = false;
        this.hasRung = false;
        this.clear();
    }

    clear() {
        this.rows = [];
        this.last = 0;
        this.matched = 0;
        this.kept = 0;
        this.dropped = 0;
        this.error = null;
        this.hasSkipped = false;
    }

    /** Ask for other rows: a filter, a server. Only the answer to the latest question counts. */
    async search(query) {
        this.query = query;
        this.asked += 1;
        const mine = this.asked;
        const answer = await ask("traffic/rows", { ...query, limit: PAGE });
        if (mine !== this.asked) return;
        this.answered = mine;
        this.clear();
        this.take(answer);
        this.rows = answer.rows;
        this.onchange("search");
    }

    take(answer) {
        this.error = answer.error ?? null;
        this.matched = answer.matched;
        this.kept = answer.kept;
        this.dropped = answer.dropped;
        this.last = Math.max(this.last, answer.rows.at(-1)?.number ?? 0);
    }

    /** Fetch what came after the rows that are here, until nothing is left. */
    async grow(last) {
        if (this.asked === 0 || this.answered !== this.asked) return;
        this.hasRung = true;
        if (this.isBusy) return;
        this.isBusy = true;
        try {
            while (this.hasRung) {
                this.hasRung = false;
                await this.fetchNewer(last);
            }
        } finally {
            this.isBusy = false;
        }
    }

    async fetchNewer(last) {
        if (last !== Infinity && last - this.last > FARTHEST && !this.query.filter) {
            await this.search(this.query);
            this.hasSkipped = true;
            this.onchange("skipped");
            return;
        }
        const [mine, before] = [this.asked, this.matched];
        const answer = await ask("traffic/rows", { ...this.query, after: this.last, limit: NEWER });
        if (mine !== this.asked) return;
        this.take(answer);
        this.matched = Math.max(answer.matched, before);
        this.hasRung ||= answer.rows.length === NEWER;
        if (!answer.rows.length) return;
        this.rows = [...this.rows, ...answer.rows].slice(-MOST);
        this.onchange("grown");
    }

    /** Fetch what came before the rows that are here; return how many came. */
    async growUp() {
        const first = this.rows[0]?.number;
        if (!first || this.isBusy || this.rows.length >= Math.min(this.matched, MOST)) return 0;
        this.isBusy = true;
        const mine = this.asked;
        try {
            const answer = await ask("traffic/rows", { ...this.query, before: first, limit: OLDER });
            if (mine !== this.asked) return 0;
            this.rows = [...answer.rows, ...this.rows];
            return answer.rows.length;
        } finally {
            this.isBusy = false;
        }
    }
}
