// The TypeScript SDK and skills: a client that lists, verifies and reads all that a server teaches, or a server.
//
//     node typescript_skills.mjs client (handshake|stateless) COMMAND [ARGUMENT ...]
//     node typescript_skills.mjs server FOLDER
//     node typescript_skills.mjs frontmatter < a line of JSON for each SKILL.md
//
// The client writes one JSON object; the server serves stdin and stdout; `frontmatter` writes what each file says.

import { readFileSync } from 'node:fs';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills';
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { skillEntry } from '@modelcontextprotocol/server/ext/skills';
import { loadSkills } from '@modelcontextprotocol/server/ext/skills/node';

const MODES = { handshake: 'legacy', stateless: { pin: '2026-07-28' } };

async function use(mode, command, args) {
    const client = new Client({ name: 'typescript', version: '1' }, { versionNegotiation: { mode: MODES[mode] } });
    await client.connect(new StdioClientTransport({ command, args }));
    const skills = new SkillsClient(client);
    const listing = await skills.list();
    const seen = { supported: skills.supported, directoryRead: skills.directoryRead, invalid: listing.invalid, skills: {} };
    for (const skill of listing.skills) {
        const manifest = await skills.read(skill);
        const files = {};
        for (const { uri } of skill.resources === 'dynamic' ? [] : skill.resources) {
            const file = await skills.read(skill, uri);
            files[uri] = { verified: file.verified, base64: Buffer.from(file.bytes).toString('base64') };
        }
        const folder = skill.uri.slice(0, -'/SKILL.md'.length);
        const { resources } = await skills.readDirectory(folder);
        seen.skills[skill.uri] = {
            frontmatter: manifest.frontmatter,
            body: manifest.body,
            verified: manifest.verified,
            files,
            children: resources.map(({ name }) => name),
            same: (await skills.get(skill.uri)).skill.uri === skill.uri,
        };
    }
    await client.close();
    console.log(JSON.stringify(seen));
}

async function serve(folder) {
    const skills = await loadSkills(folder, { strict: true });
    serveStdio(() => {
        const server = new McpServer({ name: 'typescript', version: '1' }, { capabilities: { resources: {} } });
        skills.attach(server);
        return server;
    });
}

async function readFrontmatter() {
    const read = [];
    for (const line of readFileSync(0, 'utf8').split('\n').filter(Boolean)) {
        const text = JSON.parse(line);
        try {
            read.push((await skillEntry('x', { 'SKILL.md': text })).frontmatter);
        } catch (error) {
            read.push({ refused: error.message });
        }
    }
    console.log(JSON.stringify(read));
}

const [role, ...rest] = process.argv.slice(2);
if (role === 'client') await use(rest[0], rest[1], rest.slice(2));
else if (role === 'server') await serve(rest[0]);
else await readFrontmatter();
