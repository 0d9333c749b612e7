// The search of the site, in place of Zensical's worker: that one prefers the reference, and a page must have all words.
//
// It answers the messages of Zensical's page (`type`): 0 has the sections to search, and is answered with 1; 2 is a
// query, and is answered with 3, or with 4 if something went wrong. Over HTTP it runs in a worker. A browser starts no
// worker for a page that was opened as a file, so that it then runs in the page.
//
// A section is ranked by BM25 over its title, the titles above it, and its text; the page that it is on counts too. A word
// is also found as the beginning of a longer word, and, if it is nowhere, with one or two letters changed. The rank of
// a section falls with each word of the query that it lacks. The reference comes after guides that are as good, unless
// the query is written as a name in Python.
"use strict";
{
  // A title of the reference ends with labels such as `async`.
  const bare = (title) => title.replace(/<small>.*/, "");
  const FIELDS = [
    { name: "title", weight: 6, normal: 0.5, of: (section) => bare(section.title) },
    { name: "path", weight: 4, normal: 0.5, of: (section) => section.path.join(" ") },
    { name: "text", weight: 1, normal: 0.75, of: (section) => section.text },
  ];
  const SATURATION = 1.5;
  const PAGE_SHARE = 0.8;
  const REFERENCE_SHARE = 0.25;
  const TITLE_FACTOR = 1.5;
  const STEM_SHARE = 0.9;
  const PREFIX_SHARE = 0.7;
  const PAGE_SIZE = 10;
  const NOTHING = { items: [], pagination: { total: 0 } };
  const COMMON = new Set(
    ("a an and are as at be by can do does for from get how i if in into is it my of on or so that the this to use " +
      "using what when where with you your").split(" "),
  );

  const stem = (word) => word.replace(/(?<=.{4})(ies|ing|ed|es|e|y)$|(?<=..[^s])s$/, "");

  // Yields the words of a text outside of its tags, and the parts of words such as `RateLimit` and `time-out`.
  function* words(text) {
    for (const { 0: found, index } of text.matchAll(/<[^>]*>|&\w+;|[\p{L}\p{N}]+(-[\p{L}\p{N}]+)*/gu)) {
      if (/[<&]/.test(found)) continue;
      yield { word: found.replaceAll("-", "").toLowerCase(), start: index, end: index + found.length };
      const parts = [...found.matchAll(/\p{Lu}+(?!\p{Ll})|\p{Lu}?\p{Ll}+|\p{N}+/gu)];
      if (parts.length > 1)
        for (const { 0: part, index: at } of parts)
          yield { word: part.toLowerCase(), start: index + at, end: index + at + part.length };
    }
  }

  const key = (text) => [...words(text)].map(({ word }) => stem(word)).join(" ");

  function within(distance, one, other) {
    if (Math.abs(one.length - other.length) > distance) return false;
    let row = Array.from({ length: other.length + 1 }, (_, column) => column);
    for (let i = 1; i <= one.length; i++) {
      const next = [i];
      for (let j = 1; j <= other.length; j++)
        next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (one[i - 1] !== other[j - 1]));
      row = next;
    }
    return row[other.length] <= distance;
  }

  class Search {
    constructor(sections) {
      this.sections = sections;
      this.pages = sections.map(({ location }) => location.split("#")[0]);
      this.titles = sections.map(({ title }) => key(bare(title)));
      this.terms = new Map(); // word -> section -> how often it stands in each field
      const lengths = sections.map((section, id) => FIELDS.map((field, at) => this.#add(id, at, field.of(section))));
      const means = FIELDS.map((_, at) => lengths.reduce((sum, all) => sum + all[at], 0) / sections.length);
      this.norms = lengths.map((all) => all.map((length, at) => 1 + FIELDS[at].normal * (length / means[at] - 1)));
    }

    #add(id, at, text) {
      let length = 0;
      for (const { word } of words(text)) {
        if (!this.terms.has(word)) this.terms.set(word, new Map());
        const found = this.terms.get(word);
        if (!found.has(id)) found.set(id, FIELDS.map(() => 0));
        found.get(id)[at]++;
        length++;
      }
      return length;
    }

    #alike(word) {
      const known = [...this.terms.keys()];
      const same = (one) => stem(one) === stem(word);
      const share = (one) => (one === word ? 1 : same(one) ? STEM_SHARE : (PREFIX_SHARE * word.length) / one.length);
      const alike = known.filter((one) => one.startsWith(word) || same(one));
      if (alike.length || word.length < 4) return alike.map((one) => [one, share(one)]);
      const distance = word.length < 7 ? 1 : 2;
      return known.filter((one) => within(distance, one, word)).map((one) => [one, 0.5]);
    }

    // How well each section that has one of these terms fits them.
    #fits(terms) {
      const found = new Map();
      for (const [term, share] of terms)
        for (const [id, counts] of this.terms.get(term)) {
          const sum = counts.reduce((all, count, at) => all + (FIELDS[at].weight * count) / this.norms[id][at], 0);
          found.set(id, (found.get(id) ?? 0) + share * sum);
        }
      const rarity = Math.log(1 + (this.sections.length - found.size + 0.5) / (found.size + 0.5));
      for (const [id, sum] of found) found.set(id, (rarity * sum) / (SATURATION + sum));
      return { found, rarity };
    }

    rank(query) {
      let asked = [...words(query)].map(({ word }) => word);
      if (asked.some((word) => !COMMON.has(word))) asked = asked.filter((word) => !COMMON.has(word));
      const groups = [...new Set(asked)].map((word) => this.#alike(word));
      const fits = groups.map((terms) => this.#fits(terms));
      const all = fits.reduce((sum, { rarity }) => sum + rarity, 0);
      const named = /[a-z][A-Z]|\w[_.]\w|\(/.test(query);
      const phrase = key(query);
      const isTitle = (title) => title === phrase || (phrase.includes(" ") && title.includes(phrase));
      const scores = new Map();
      const best = new Map();
      for (const id of new Set(fits.flatMap(({ found }) => [...found.keys()]))) {
        const had = fits.filter(({ found }) => found.has(id));
        const covered = had.reduce((sum, { rarity }) => sum + rarity, 0) / all;
        const fit = had.reduce((sum, { found }) => sum + found.get(id), 0) * covered ** 2;
        const factor = isTitle(this.titles[id]) ? TITLE_FACTOR : 1;
        scores.set(id, fit * (!named && this.sections[id].path[0] === "Reference" ? REFERENCE_SHARE : factor));
        best.set(this.pages[id], (best.get(this.pages[id]) ?? 0) + scores.get(id));
      }
      const value = (id) => scores.get(id) + PAGE_SHARE * Math.log1p(best.get(this.pages[id]));
      return { ids: [...scores.keys()].sort((one, other) => value(other) - value(one) || one - other), groups };
    }

    answer({ input, page }) {
      const { ids, groups } = this.rank(input);
      const from = page?.from ?? 0;
      const terms = new Set(groups.flat().map(([term]) => term));
      return {
        items: ids.slice(from, from + PAGE_SIZE).map((id) => ({ id, matches: this.#matches(id, terms) })),
        pagination: {
          total: ids.length,
          prev: from > 0 ? { from: from - PAGE_SIZE } : undefined,
          next: from + PAGE_SIZE < ids.length ? { from: from + PAGE_SIZE } : undefined,
        },
      };
    }

    #matches(id, terms) {
      return ["title", "text"].map((field) => {
        const ranges = [];
        for (const { word, start, end } of words(this.sections[id][field]))
          if (terms.has(word) && start >= (ranges.at(-1)?.end ?? 0)) ranges.push({ start, end, value: end - start });
        return { field, value: { highlight: { ranges } } };
      });
    }
  }

  // Returns a function that answers one message. The first query builds the index, so that a page loads without it.
  function answers() {
    let sections, search;
    return ({ type, data }) => {
      try {
        if (type === 2) return { type: 3, data: data.input ? (search ??= new Search(sections)).answer(data) : NOTHING };
        sections = data.items;
        return { type: 1 };
      } catch (error) {
        console.error(error);
        return { type: 4 };
      }
    };
  }

  if (typeof window === "undefined") {
    const answer = answers();
    self.onmessage = ({ data }) => self.postMessage(answer(data));
  } else {
    const script = document.currentScript.src;
    const RealWorker = window.Worker;
    window.Worker = function () {
      if (location.protocol !== "file:") return new RealWorker(script);
      const answer = answers();
      return {
        postMessage(data) {
          setTimeout(() => this.onmessage?.({ data: answer(data) }));
        },
        terminate() {},
      };
    };
  }
}
