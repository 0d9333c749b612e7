// The parts of the inspector's page that need no browser: schemas, values, templates, differences, texts, the palette.

import assert from 'node:assert/strict';
import { test } from 'node:test';

const from = (file) => import(new URL(`../../../src/dragoman/inspector/static/${file}`, import.meta.url));
const { branchOf, equal, fieldOf, initialValue, resolve } = await from('schema/resolve.js');
const { check } = await from('schema/check.js');
const { expand, variables } = await from('schema/uri_template.js');
const { differences } = await from('shown/difference.js');
const { looksLikeMarkdown } = await from('shown/markdown.js');
const { listsOfObjects } = await from('shown/table.js');
const { brief, bytes, cutAt, duration, harmless, withoutColours } = await from('page/texts.js');
const { matching } = await from('page/palette.js');

const EMAIL = {
    type: 'object',
    properties: { kind: { const: 'email' }, address: { type: 'string' } },
    required: ['kind', 'address'],
};
const SMS = {
    type: 'object',
    properties: { kind: { const: 'sms' }, phone: { type: 'string' } },
    required: ['kind', 'phone'],
};

test('a reference is followed, and what stands beside it wins', () => {
    const root = { $defs: { City: { type: 'string', description: 'A city', title: 'City' } } };
    assert.deepEqual(resolve({ $ref: '#/$defs/City', description: 'Where' }, root), {
        type: 'string',
        description: 'Where',
        title: 'City',
    });
});

test('a reference with an anchor, an escape or the root is followed', () => {
    const root = { type: 'object', $defs: { 'a/b': { type: 'string' }, c: { $anchor: 'see', type: 'integer' } } };
    assert.equal(resolve({ $ref: '#/$defs/a~1b' }, root).type, 'string');
    assert.equal(resolve({ $ref: '#see' }, root).type, 'integer');
    assert.equal(resolve({ $ref: '#' }, root).type, 'object');
});

test('a reference that leads nowhere, elsewhere or to itself asks for anything', () => {
    const root = { $defs: { Loop: { $ref: '#/$defs/Loop' } } };
    for (const $ref of ['#/$defs/Absent', 'https://example.com/schema', '#/$defs/Loop', 7])
        assert.equal(fieldOf({ $ref }, root).kind, 'any');
});

test('the parts of allOf are one object', () => {
    const merged = resolve(
        {
            allOf: [
                { properties: { a: { type: 'string' } }, required: ['a'] },
                { properties: { b: { type: 'integer' }, a: { minLength: 2 } }, required: ['b'] },
            ],
        },
        {},
    );
    assert.deepEqual(merged.required, ['a', 'b']);
    assert.deepEqual(fieldOf(merged.properties.a, {}).schema, { type: 'string', minLength: 2 });
});

test('every way to say null makes a field nullable, and not a choice', () => {
    for (const schema of [
        { anyOf: [{ type: 'integer' }, { type: 'null' }], default: null },
        { type: ['integer', 'null'] },
        { type: 'integer', nullable: true },
        { oneOf: [{ type: 'integer' }, { const: null }] },
    ]) {
        const field = fieldOf(schema, {});
        assert.deepEqual([field.kind, field.nullable], ['integer', true]);
    }
});

test('constants with titles are an enum', () => {
    const field = fieldOf(
        {
            oneOf: [
                { const: 's', title: 'Small' },
                { const: 'l', title: 'Large' },
            ],
        },
        {},
    );
    assert.equal(field.kind, 'enum');
    assert.deepEqual(field.options, [
        { value: 's', label: 'Small' },
        { value: 'l', label: 'Large' },
    ]);
    assert.equal(fieldOf({ enum: ['a', null] }, {}).nullable, true);
});

test('a union at the root is a choice with the shared properties in every branch', () => {
    const schema = { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'], oneOf: [EMAIL, SMS] };
    const field = fieldOf(schema, schema);
    assert.equal(field.kind, 'choice');
    assert.deepEqual(
        field.options.map((option) => option.label),
        ['email', 'sms'],
    );
    assert.deepEqual(Object.keys(field.options[1].schema.properties), ['id', 'kind', 'phone']);
    assert.deepEqual(initialValue(schema, schema), { kind: 'email' });
});

test('branches that only demand properties are no choice', () => {
    assert.equal(
        fieldOf({ type: 'object', properties: { a: {}, b: {} }, anyOf: [{ required: ['a'] }, { required: ['b'] }] }, {})
            .kind,
        'object',
    );
});

test('a value finds its branch', () => {
    const options = [
        { schema: EMAIL },
        { schema: SMS },
        { schema: { type: 'string' } },
        { schema: { type: ['integer', 'null'] } },
    ];
    assert.equal(branchOf({ kind: 'sms' }, options, {}), 1);
    assert.equal(branchOf('x', options, {}), 2);
    assert.equal(branchOf(3, options, {}), 3);
    assert.equal(branchOf(null, options, {}), 3);
    assert.equal(branchOf(true, options, {}), 0);
});

test('a form begins with defaults and constants, and leaves out what is optional', () => {
    const schema = {
        type: 'object',
        properties: {
            a: { type: 'string' },
            b: { type: 'integer', default: 3 },
            c: { anyOf: [{ type: 'integer' }, { type: 'null' }], default: null },
            d: { type: 'array' },
            e: { type: 'object' },
            f: { const: 'x' },
        },
        required: ['a', 'd', 'f'],
    };
    assert.deepEqual(initialValue(schema, schema), { b: 3, d: [], f: 'x' });
});

test('a schema that needs itself ends', () => {
    const root = {
        $defs: { Node: { type: 'object', properties: { next: { $ref: '#/$defs/Node' } }, required: ['next'] } },
        $ref: '#/$defs/Node',
    };
    assert.equal(typeof initialValue(root, root), 'object');
    assert.ok(check({}, root).length > 0);
});

test('a value is judged by the words that people meet', () => {
    const schema = {
        type: 'object',
        properties: {
            n: { type: 'integer', minimum: 1, maximum: 9 },
            s: { type: 'string', minLength: 2, pattern: '^a' },
            l: { type: 'array', items: { enum: [1, 2] }, minItems: 2 },
            o: { additionalProperties: false, type: 'object' },
        },
        required: ['n', 'x'],
    };
    const found = check({ n: 10, s: 'b', l: [3], o: { y: 1 } }, schema).map(
        ({ path, message }) => `${path} ${message}`,
    );
    assert.deepEqual(found, [
        '/x is required',
        '/n must be at most 9',
        '/s needs at least 2 characters',
        '/s must match ^a',
        '/l needs at least 2 items',
        '/l/0 must be one of 1, 2',
        '/o/y is not a property of the schema',
    ]);
    assert.deepEqual(
        check({ n: 'abc' }, { properties: { n: { type: 'integer' } } })[0].message,
        'must be an integer, and is a string',
    );
    assert.deepEqual(
        check({ n: 2 ** 60 }, { properties: { n: { type: 'integer' } } })[0].message,
        'is larger than a browser can hold exactly',
    );
});

test('a pattern that is no pattern, or that could take forever, is left to the server', () => {
    assert.deepEqual(check('a', { type: 'string', pattern: '(' }), []);
    assert.deepEqual(check('a'.repeat(5_000), { type: 'string', pattern: '^(a+)+$x' }), []);
});

test('JSON values are equal by their content', () => {
    assert.ok(equal({ a: [1, { b: null }] }, { a: [1, { b: null }] }));
    assert.ok(!equal({ a: 1 }, { a: 1, b: 2 }));
    assert.ok(!equal([1], { 0: 1 }));
});

test('a URI template gives its variables and its URI', () => {
    assert.deepEqual(variables('users://{id}/posts{?page,id}'), [
        { name: 'id', isRequired: true },
        { name: 'page', isRequired: false },
    ]);
    assert.equal(expand('users://{id}/x', { id: 'a b/c' }), 'users://a%20b%2Fc/x');
    assert.equal(expand('file:///{+path}', { path: 'a b/c' }), 'file:///a%20b/c');
    assert.equal(expand('x://s{?q,page}', { q: 'é', page: 2 }), 'x://s?q=%C3%A9&page=2');
    assert.equal(expand('x://s{?q}', {}), 'x://s');
    assert.equal(expand('x://{a:2}{/b}{.c}{;d}', { a: 'long', b: 1, c: 2, d: 3 }), 'x://lo/1.2;d=3');
});

test('two values differ where they differ', () => {
    assert.deepEqual(differences({ a: 1, b: { c: [1, 2] }, d: 1 }, { a: 1, b: { c: [1, 3, 4] }, 'e/f': 2 }), [
        { path: '/b/c/1', kind: 'changed', before: 2, after: 3 },
        { path: '/b/c/2', kind: 'added', after: 4 },
        { path: '/d', kind: 'removed', before: 1 },
        { path: '/e~1f', kind: 'added', after: 2 },
    ]);
    assert.deepEqual(differences([1], [1]), []);
    assert.deepEqual(differences('a', null), [{ path: '/', kind: 'changed', before: 'a', after: null }]);
});

test('characters that hide or move others are named', () => {
    assert.equal(harmless('a\u202eb\u0007\u001b[31mc\u200b\n\td'), 'a⟨U+202E⟩b␇␛[31mc⟨U+200B⟩\n\td');
    assert.equal(harmless('\u{e0041}\u009b'), '⟨U+E0041⟩⟨U+009B⟩');
    assert.equal(harmless('a\ufe0f\u{e0101}\u3164\u2800'), 'a⟨U+FE0F⟩⟨U+E0101⟩⟨U+3164⟩⟨U+2800⟩');
    assert.equal(withoutColours('\u001b[31mred\u001b[0m'), 'red');
});

test('a long text is cut, by characters and by lines', () => {
    assert.equal(cutAt('x'.repeat(1_000_000)), 4_000);
    assert.equal(cutAt('a\n'.repeat(1_000)), 399);
    assert.equal(cutAt('short\n'), 6);
    assert.equal(brief('a  b\nc'), 'a b c');
    assert.equal(brief('x'.repeat(500), 10), `${'x'.repeat(10)}…`);
});

test('numbers are said as people read them', () => {
    assert.deepEqual([bytes(12), bytes(1_234), bytes(20_000_000), bytes(null)], ['12 B', '1.2 kB', '20.0 MB', '']);
    assert.deepEqual(
        [duration(1.23), duration(123.4), duration(12_345), duration(null)],
        ['1.2 ms', '123 ms', '12.3 s', ''],
    );
});

test('the palette finds commands by their letters, the best first', () => {
    const commands = [{ name: 'Clear all messages' }, { name: 'call forecast', hint: 'tools' }, { name: 'Dark theme' }];
    assert.deepEqual(
        matching(commands, 'forecast').map(({ name }) => name),
        ['call forecast'],
    );
    assert.deepEqual(matching(commands, 'cam').map(({ name }) => name)[0], 'Clear all messages');
    assert.equal(matching(commands, '').length, 3);
    assert.equal(matching(commands, 'zzz').length, 0);
});

test('Markdown and tables are recognized', () => {
    assert.ok(looksLikeMarkdown('# Title\n\ntext'));
    assert.ok(!looksLikeMarkdown('just # a text'));
    assert.deepEqual(listsOfObjects({ a: [{ b: 1 }], c: [1], d: [] }), [['a', [{ b: 1 }]]]);
    assert.deepEqual(listsOfObjects([{ b: 1 }]), [['', [{ b: 1 }]]]);
    assert.deepEqual(listsOfObjects('x'), []);
});

globalThis.location = { hash: '#token=x', host: '127.0.0.1' };
globalThis.sessionStorage = { setItem() {}, getItem: () => null };
const { Rows } = await from('views/traffic/rows.js');

/** A backend with so many rows; it notes what it is asked. */
function backendOf(count, asked = []) {
    globalThis.fetch = async (_, { body }) => {
        const { after, before, limit, filter } = JSON.parse(body);
        asked.push({ after, before, filter });
        const all = Array.from({ length: count }, (_, place) => ({ number: place + 1 }));
        let rows = all.slice(-limit);
        const newer = all.filter((row) => row.number > (after ?? 0));
        if (after !== undefined) rows = newer.slice(-limit);
        else if (before !== undefined) rows = all.filter((row) => row.number < before).slice(-limit);
        const counts = { matched: count, newer: newer.length, kept: count, dropped: 0, error: null };
        return { ok: true, json: async () => ({ rows, ...counts }) };
    };
    return asked;
}

test('rows begin with the newest, and grow at both ends', async () => {
    const heard = [];
    const rows = new Rows((why) => heard.push(why));
    backendOf(1_000);
    await rows.search({});
    assert.deepEqual([rows.rows[0].number, rows.rows.at(-1).number, rows.matched], [801, 1_000, 1_000]);
    assert.equal(await rows.growUp(), 800);
    backendOf(1_200);
    await rows.grow();
    assert.deepEqual([rows.rows.length, rows.skipped, heard], [1_200, 0, ['search', 'grown']]);
});

test('rows that came faster than they can be shown are skipped and counted, and the newest are shown', async () => {
    const rows = new Rows(() => {});
    backendOf(10);
    await rows.search({});
    backendOf(50_000);
    await rows.grow();
    assert.deepEqual([rows.rows.length, rows.rows.at(-1).number, rows.skipped], [500, 50_000, 49_490]);
    backendOf(60_000);
    await rows.grow();
    assert.deepEqual([rows.rows.at(-1).number, rows.skipped, rows.matched], [60_000, 58_990, 60_000]);
    assert.equal(await rows.growUp(), 1_000);
    assert.equal(rows.rows[0].number, 58_501);
    await rows.search({ filter: 'a' });
    assert.equal(rows.skipped, 0);
});

test('the rule is the same with a filter, and 500 rows at once are no flood', async () => {
    const rows = new Rows(() => {});
    backendOf(10);
    await rows.search({ filter: 'a' });
    backendOf(510);
    await rows.grow();
    assert.deepEqual([rows.rows.length, rows.skipped], [510, 0]);
    backendOf(1_011);
    await rows.grow();
    assert.deepEqual([rows.rows.length, rows.skipped], [500, 1]);
});

test('a reader of earlier rows keeps them, and is told how many newer ones there are', async () => {
    let isAtEnd = false;
    const heard = [];
    const rows = new Rows(
        (why) => heard.push(why),
        () => isAtEnd,
    );
    backendOf(10);
    await rows.search({});
    backendOf(50_000);
    await rows.grow();
    assert.deepEqual([rows.rows.length, rows.behind, rows.skipped, rows.matched], [10, 49_990, 0, 50_000]);
    assert.equal(heard.at(-1), 'grown');
    isAtEnd = true;
    await rows.grow();
    assert.deepEqual([rows.rows.at(-1).number, rows.behind, rows.skipped], [50_000, 0, 49_490]);
});

test('rows that came while nobody looked are not called skipped', async () => {
    const rows = new Rows(() => {});
    backendOf(10);
    await rows.search({});
    backendOf(5_000);
    await rows.grow({ wasAway: true });
    assert.deepEqual([rows.rows.length, rows.rows.at(-1).number, rows.skipped], [500, 5_000, 0]);
});

test('nothing is fetched before the first answer, and an answer that comes too late is dropped', async () => {
    const rows = new Rows(() => {});
    const asked = backendOf(10);
    await rows.grow();
    assert.deepEqual(asked, []);
    const late = rows.search({ filter: 'a' });
    await rows.search({ filter: 'ab' });
    await late;
    assert.deepEqual(rows.query, { filter: 'ab' });
    assert.deepEqual([asked.length, rows.rows.length], [2, 10]);
});
