/** A bundle's page stands in a frame where nothing runs; what goes wrong is said, and the theme goes along. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { addBundles, bundleContent, openCommand } from "../lab/bundles.js";
import { Rest, RestFailure } from "../lab/rest.js";
import { FakeSignal } from "./lab-fakes.js";
import { withoutPage } from "./page.js";

const PAGE = '<!doctype html>\n<html><head></head><body><a href="#digests">Digests</a></body></html>';

class Widget {
  isDisposed = false;

  constructor({ node = document.createElement("div") } = {}) {
    this.node = node;
  }

  addClass(name) {
    this.node.classList.add(name);
  }

  dispose() {
    this.isDisposed = true;
  }
}

class FakeThemes {
  themeChanged = new FakeSignal();
  theme = "JupyterLab Light";

  isLight(name) {
    return name.endsWith("Light");
  }
}

/** A view of a bundle, and what it asked for. `answers`: what comes, one after another. */
function viewed(...answers) {
  const asked = [];
  const rest = {
    async bundle(path, theme) {
      asked.push([path, theme]);
      const answer = answers.shift();
      if (answer instanceof Error) throw answer;
      return answer;
    },
  };
  const themes = new FakeThemes();
  const context = { localPath: "sent/my study.agentnb", path: "RTC:sent/my study.agentnb", pathChanged: new FakeSignal() };
  const view = new (bundleContent(Widget))(context, rest, themes);
  return { view, asked, themes, context };
}

const settled = () => new Promise((done) => setTimeout(done));

test("the page stands in a frame without any leave, and its links stay in it", { skip: withoutPage }, async () => {
  const { view, asked } = viewed(PAGE);
  assert.equal(view.node.querySelector("[role=status]").textContent, "Verifying my study.agentnb…");
  await settled();
  const frame = view.node.querySelector("iframe");
  assert.equal(frame.getAttribute("sandbox"), "");
  assert.equal(frame.title, "The bundle my study.agentnb");
  assert.match(frame.srcdoc, /^<!doctype html>\n<html><head><base href="about:srcdoc"><\/head>/);
  assert.deepEqual(asked, [["sent/my study.agentnb", "light"]]);
});

test("another theme is another page, and what is closed asks for none", { skip: withoutPage }, async () => {
  const { view, asked, themes } = viewed(PAGE, PAGE, PAGE);
  await settled();
  themes.theme = "JupyterLab Dark";
  themes.themeChanged.emit({});
  await settled();
  assert.deepEqual(asked.map(([, theme]) => theme), ["light", "dark"]);
  view.dispose();
  themes.themeChanged.emit({});
  assert.equal(asked.length, 2);
});

test("why there is no page is said, and it can be tried again", { skip: withoutPage }, async () => {
  const { view } = viewed(new RestFailure("not_found", "there is no bundle 'x'", 404), PAGE);
  await settled();
  assert.equal(view.node.querySelector("[role=alert]").textContent, "my study.agentnb cannot be shown: there is no bundle 'x'");
  view.node.querySelector("button").click();
  await settled();
  assert.ok(view.node.querySelector("iframe"));
});

test("an answer that comes after a later one is not shown", { skip: withoutPage }, async () => {
  const slow = [];
  const rest = { bundle: () => new Promise((answer) => slow.push(answer)) };
  const view = new (bundleContent(Widget))({ localPath: "a.agentnb" }, rest, null);
  void view.load();
  slow[1]("<head></head>second");
  slow[0]("<head></head>first");
  await settled();
  assert.match(view.node.querySelector("iframe").srcdoc, /second/);
});

test("the command names the file as a shell reads it", () => {
  assert.equal(openCommand("study.agentnb"), "agent-kernel open study.agentnb");
  assert.equal(openCommand("my study.agentnb"), "agent-kernel open 'my study.agentnb'");
  assert.equal(openCommand("it's; rm -r ~.agentnb"), "agent-kernel open 'it'\\''s; rm -r ~.agentnb'");
  assert.equal(openCommand("-rf.agentnb"), "agent-kernel open ./-rf.agentnb");
});

test("a page comes as text, and a refusal in the server's words", async () => {
  const paths = [];
  const rest = new Rest(async (path) => {
    paths.push(path);
    return new Response(PAGE, { status: 200, headers: { "Content-Type": "text/html" } });
  });
  assert.equal(await rest.bundle("a b.agentnb", undefined), PAGE);
  assert.deepEqual(paths, ["agent-kernel/api/v1/bundles?path=a+b.agentnb"]);
  const refused = new Rest(async () => new Response(JSON.stringify({ error: { code: "busy", message: "later" } }), { status: 503 }));
  await assert.rejects(refused.bundle("a.agentnb", "dark"), { code: "busy", message: "later" });
  const absent = new Rest(async () => new Response("<html>Not found</html>", { status: 404 }));
  await assert.rejects(absent.bundle("a.agentnb", "dark"), { code: "absent" });
});

test("the application opens bundles without their content, and copies nothing", { skip: withoutPage }, async () => {
  const added = { types: [], models: [], factories: [] };
  const app = {
    docRegistry: {
      addFileType: (type) => added.types.push(type),
      addModelFactory: (factory) => added.models.push(factory),
      addWidgetFactory: (factory) => added.factories.push(factory),
    },
  };
  class ABCWidgetFactory {
    widgetCreated = new FakeSignal();

    constructor(options) {
      this.options = options;
    }
  }
  const packages = {
    docs: { Base64ModelFactory: class {}, ABCWidgetFactory, DocumentWidget: class {} },
    ui: { LabIcon: class {} },
    utils: { WidgetTracker: class {} },
    Widget,
  };
  addBundles(packages, { app, rest: { bundle: async () => PAGE }, themes: null, restorer: null });
  assert.deepEqual(added.types[0].extensions, [".agentnb"]);
  assert.equal(added.models[0].fileFormat, null);
  assert.equal(added.models[0].name, added.factories[0].options.modelName);
  const refuse = () => assert.fail("this would write");
  const context = { localPath: "a.agentnb", pathChanged: new FakeSignal(), listCheckpoints: refuse, createCheckpoint: refuse };
  added.factories[0].createNewWidget(context);
  assert.deepEqual(await context.listCheckpoints(), []);
  await context.createCheckpoint();
  assert.deepEqual([added.factories[0].options.readOnly, added.factories[0].options.defaultFor], [true, [added.types[0].name]]);
});
