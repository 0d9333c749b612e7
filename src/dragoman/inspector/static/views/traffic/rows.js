// The rows of the traffic that the page holds: a window on what the backend keeps, which grows at both ends.
//
// The backend filters, because only it has the whole messages. An event of the socket is only a bell: rows are always
// fetched, so that a row is never lost between the socket and a filter. One fetch takes at most 500 rows. If more have
// come since the fetch before, nobody could read them as they pass: the window starts again at the newest, and counts
// those that it skipped. A reader who reads earlier rows keeps them, and the window counts how many it is behind.

import { ask } from "../../page/backend.js";

const PAGE = 200;
const OLDER = 1_000;
const NEWER = 500;
const MOST = 20_000;

export class Rows {
    /** `onchange(why)` hears of other rows or counts; `isAtEnd()` tells whether the reader wants the newest rows. */
    constructor(onchange, isAtEnd = () => true) {
        this.onchange = onchange;
        this.isAtEnd = isAtEnd;
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
        this.skipped = 0;
        this.behind = 0;
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

    /** Fetch what came after the rows that are here; a reader who was away missed nothing by the speed of the rows. */
    async grow({ wasAway = false } = {}) {
        if (this.asked === 0 || this.answered !== this.asked) return;
        this.hasRung = true;
        if (this.isBusy) return;
        this.isBusy = true;
        try {
            while (this.hasRung) {
                this.hasRung = false;
                await this.fetchNewer(wasAway);
            }
        } finally {
            this.isBusy = false;
        }
    }

    async fetchNewer(wasAway) {
        const mine = this.asked;
        const answer = await ask("traffic/rows", { ...this.query, after: this.last, limit: NEWER });
        if (mine !== this.asked) return;
        const left = answer.newer - answer.rows.length;
        const isFull = left > 0 || this.rows.length + answer.newer > MOST;
        this.behind = isFull && !this.isAtEnd() ? answer.newer : 0;
        if (this.behind) answer.rows = [];
        this.take(answer);
        if (left > 0 && !this.behind) {
            this.skipped += wasAway ? 0 : left;
            this.rows = answer.rows;
        } else this.rows = [...this.rows, ...answer.rows].slice(-MOST);
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
