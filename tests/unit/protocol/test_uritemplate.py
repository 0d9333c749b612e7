from __future__ import annotations

import time

import pytest

from dragoman.errors import DefinitionError
from dragoman.protocol.uritemplate import UriTemplate

Values = dict[str, str | int | float | bool | None]

RFC_6570_SECTION_3_2: Values = {
    "dom": "example.com",
    "dub": "me/too",
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "v": "6",
    "x": "1024",
    "y": "768",
    "empty": "",
    "undef": None,
}


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        # section 1.2, level 1 and section 3.2.2
        ("{var}", "value"),
        ("{hello}", "Hello%20World%21"),
        ("{half}", "50%25"),
        ("O{empty}X", "OX"),
        ("O{undef}X", "OX"),
        ("{x,y}", "1024,768"),
        ("{x,hello,y}", "1024,Hello%20World%21,768"),
        ("?{x,empty}", "?1024,"),
        ("?{x,undef}", "?1024"),
        ("?{undef,y}", "?768"),
        ("map?{x,y}", "map?1024,768"),
        # section 1.2, level 2 and section 3.2.3
        ("{+var}", "value"),
        ("{+hello}", "Hello%20World!"),
        ("{+half}", "50%25"),
        ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
        ("{+base}index", "http://example.com/home/index"),
        ("O{+empty}X", "OX"),
        ("O{+undef}X", "OX"),
        ("{+path}/here", "/foo/bar/here"),
        ("here?ref={+path}", "here?ref=/foo/bar"),
        ("up{+path}{var}/here", "up/foo/barvalue/here"),
        ("{+x,hello,y}", "1024,Hello%20World!,768"),
        ("{+path,x}/here", "/foo/bar,1024/here"),
        # section 3.2.4
        ("{#var}", "#value"),
        ("{#hello}", "#Hello%20World!"),
        ("{#half}", "#50%25"),
        ("foo{#empty}", "foo#"),
        ("foo{#undef}", "foo"),
        ("{#x,hello,y}", "#1024,Hello%20World!,768"),
        ("{#path,x}/here", "#/foo/bar,1024/here"),
        ("X{#var}", "X#value"),
        ("X{#hello}", "X#Hello%20World!"),
        # section 3.2.5
        ("{.who}", ".fred"),
        ("{.half,who}", ".50%25.fred"),
        ("www{.dom}", "www.example.com"),
        ("X{.var}", "X.value"),
        ("X{.x,y}", "X.1024.768"),
        ("X{.empty}", "X."),
        ("X{.undef}", "X"),
        # section 3.2.6
        ("{/who}", "/fred"),
        ("{/half,who}", "/50%25/fred"),
        ("{/who,dub}", "/fred/me%2Ftoo"),
        ("{/var}", "/value"),
        ("{/var,empty}", "/value/"),
        ("{/var,undef}", "/value"),
        ("{/var,x}/here", "/value/1024/here"),
        # section 3.2.7
        ("{;who}", ";who=fred"),
        ("{;half}", ";half=50%25"),
        ("{;empty}", ";empty"),
        ("{;v,empty,who}", ";v=6;empty;who=fred"),
        ("{;v,bar,who}", ";v=6;who=fred"),
        ("{;x,y}", ";x=1024;y=768"),
        ("{;x,y,empty}", ";x=1024;y=768;empty"),
        ("{;x,y,undef}", ";x=1024;y=768"),
        # section 3.2.8
        ("{?who}", "?who=fred"),
        ("{?half}", "?half=50%25"),
        ("{?x,y}", "?x=1024&y=768"),
        ("{?x,y,empty}", "?x=1024&y=768&empty="),
        ("{?x,y,undef}", "?x=1024&y=768"),
        # section 3.2.9
        ("{&who}", "&who=fred"),
        ("{&half}", "&half=50%25"),
        ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
        ("{&x,y,empty}", "&x=1024&y=768&empty="),
        ("{&x,y,undef}", "&x=1024&y=768"),
    ],
)
def test_the_examples_of_the_rfc_expand_as_printed(template: str, uri: str) -> None:
    assert UriTemplate(template).expand(RFC_6570_SECTION_3_2) == uri


@pytest.mark.parametrize(
    ("template", "values", "uri"),
    [
        ("x{?yes,no}", {"yes": True, "no": False}, "x?yes=true&no=false"),
        ("x{/whole,broken}", {"whole": -3, "broken": 1.5}, "x/-3/1.5"),
        ("{word}", {"word": "dr\u00fccken"}, "dr%C3%BCcken"),
        ("{+word}", {"word": "dr\u00fccken/%C3%BC/%zz"}, "dr%C3%BCcken/%C3%BC/%25zz"),
        ("stra\u00dfe/50% off/%20/{x}", {"x": "1"}, "stra%C3%9Fe/50%25%20off/%20/1"),
        ("{Some%20Thing,last.name}", {"Some%20Thing": "a", "last.name": "b"}, "a,b"),
        ("{?a,b}", {"c": "unused"}, ""),
        ("", {}, ""),
    ],
)
def test_other_values_and_literals_expand_by_the_same_rules(template: str, values: Values, uri: str) -> None:
    assert UriTemplate(template).expand(values) == uri


def test_a_template_tells_its_text_and_its_variables_in_order() -> None:
    template = UriTemplate("file:///{b,a}{/d}{?c}")
    assert template.template == "file:///{b,a}{/d}{?c}"
    assert template.variables == ("b", "a", "d", "c")
    assert repr(template) == "UriTemplate('file:///{b,a}{/d}{?c}')"


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("static://all", "static://all", {}),
        ("users://{id}", "users://42", {"id": "42"}),
        ("users://{id}/posts/{post}", "users://42/posts/a,b;c=d", {"id": "42", "post": "a,b;c=d"}),
        ("users://{id}.json/x", "users://a.json.json/x", {"id": "a.json"}),
        ("file:///{name}", "file:///a%2Fb%20c", {"name": "a/b c"}),
        ("file:///{name}", "file:///d\u00e9j\u00e0 vu", {"name": "d\u00e9j\u00e0 vu"}),
        ("file:///d\u00e9j\u00e0/{name}", "file:///d\u00e9j\u00e0/x", {"name": "x"}),
        ("file:///d\u00e9j\u00e0/{name}", "file:///d%C3%A9j%C3%A0/x", {"name": "x"}),
        ("{x,y}", "1,2", {"x": "1", "y": "2"}),
        ("map?{x,y}", "map?1,2", {"x": "1", "y": "2"}),
        ("file:///{+path}", "file:///a/b?c#d", {"path": "a/b?c#d"}),
        ("{+path}.md", "a.md/b.md", {"path": "a.md/b"}),
        ("{+path}?line={line}", "a/b?line=3", {"path": "a/b", "line": "3"}),
        ("{+path}{#line}", "a/b#L3", {"path": "a/b", "line": "L3"}),
        ("{+x,y}", "a/b,c", {"x": "a/b", "y": "c"}),
        ("doc{#at}", "doc#a/b?c", {"at": "a/b?c"}),
        ("doc#{at}", "doc#a", {"at": "a"}),
        ("x{/a,b}/c", "x/1/2/c", {"a": "1", "b": "2"}),
        ("x{.ext}", "x.tar.gz", {"ext": "tar.gz"}),
        ("x{.a,b}", "x.1.2", {"a": "1", "b": "2"}),
        ("x{;a}", "x;a=1", {"a": "1"}),
        ("x{;a}", "x;a", {"a": ""}),
        ("x{;a}", "x;a=", {"a": ""}),
        ("x{;a,b}/y", "x;a;b=2/y", {"a": "", "b": "2"}),
        ("{x}{;a}", "v;a=1", {"x": "v", "a": "1"}),
        ("{x}{;a}", "v;ab;a", {"x": "v;ab", "a": ""}),
    ],
)
def test_a_uri_gives_back_the_values(template: str, uri: str, values: dict[str, str]) -> None:
    assert UriTemplate(template).match(uri) == values


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("{name}.{format}", "v1.2.json", {"name": "v1.2", "format": "json"}),
        ("{name}{.format}/x", "v1.2.json/x", {"name": "v1.2", "format": "json"}),
        ("{a}-{b}-{c}", "1-2-3-4", {"a": "1-2", "b": "3", "c": "4"}),
        ("{a}{b}", "123", {"a": "12", "b": "3"}),
        ("{a}{b}", "1%3B", {"a": "1", "b": ";"}),
        ("{a}{b}", "1%C3%A9", {"a": "1", "b": "\u00e9"}),
        ("{a}2{b}", "12%325", {"a": "1", "b": "25"}),
        ("x:{+path}/{revision}", "x:a/b/c", {"path": "a/b", "revision": "c"}),
        ("{owner}/{+path}/at/{revision}", "o/at/a/at/b", {"owner": "o", "path": "at/a", "revision": "b"}),
        ("{+a}/x/{b}/y/{+c}", "1/x/2/3/x/4/y/5", {"a": "1/x/2/3", "b": "4", "c": "5"}),
    ],
)
def test_of_several_ways_to_match_the_earlier_variable_takes_as_much_as_it_can(
    template: str, uri: str, values: dict[str, str]
) -> None:
    assert UriTemplate(template).match(uri) == values


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("static://all", "static://all/"),
        ("static://all", "xstatic://all"),
        ("static://all", "static://all\n"),
        ("users://{id}", "users://"),
        ("users://{id}", "users://1/2"),
        ("users://{id}", "users://1?x=2"),
        ("users://{id}", "users://1#x"),
        ("users.{id}", "usersx1"),
        ("{x,y}", "1,2,3"),
        ("{x,y}", "1"),
        ("search?q={q}", "search?q=1&debug=1"),
        ("file:///{+path}", "file:///"),
        ("x{/a,b}", "x/1"),
        ("x{/a}", "x/"),
        ("x{#a}", "x"),
        ("x{;a}", "x;ab=1"),
        ("x{;a}", "x;a;b"),
        ("x:{name}.{format}", "y:a.b"),
        ("x:{name}.{format}", "x:a.b/c"),
        ("x:{name}.{format}", "x:.json"),
        ("{+path}/{name}-", "a/b"),
    ],
)
def test_a_uri_that_the_template_could_not_have_written_does_not_match(template: str, uri: str) -> None:
    assert UriTemplate(template).match(uri) is None


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("s{?q,lang}", "s?q=a&lang=b", {"q": "a", "lang": "b"}),
        ("s{?q,lang}", "s?lang=b&q=a", {"q": "a", "lang": "b"}),
        ("s{?q,lang}", "s?lang=b", {"lang": "b"}),
        ("s{?q,lang}", "s", {}),
        ("s{?q,lang}", "s?", {}),
        ("s{?q,lang}", "s?q=", {"q": ""}),
        ("s{?q,lang}", "s?q", {"q": ""}),
        ("s{?q}", "s?q=a/b?c=d%26+e", {"q": "a/b?c=d&+e"}),
        ("s{?q}", "s?x=%zz&q=a&&y", {"q": "a"}),
        ("s{?q}{&lang}", "s?lang=b&q=a", {"q": "a", "lang": "b"}),
        ("s{?Stra%C3%9Fe}", "s?Stra%C3%9Fe=1", {"Stra%C3%9Fe": "1"}),
        ("{+path}{?q}", "a/b?q=1", {"path": "a/b", "q": "1"}),
        ("{+path}{?q}{#at}", "a/b?q=1#c/d#e", {"path": "a/b", "q": "1", "at": "c/d#e"}),
        ("{a}{?q}#top", "x#top", {"a": "x"}),
        ("s?fixed=1{&a,b}", "s?fixed=1&b=3&a=2", {"a": "2", "b": "3"}),
        ("s?fixed=1{&a,b}", "s?fixed=1", {}),
        ("s?v={v}&fixed=1{&a}#{at}", "s?v=0&fixed=1&a=2#x", {"v": "0", "a": "2", "at": "x"}),
    ],
)
def test_query_parameters_match_in_any_order_and_each_is_optional(
    template: str, uri: str, values: dict[str, str]
) -> None:
    assert UriTemplate(template).match(uri) == values


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("s{?q}", "t?q=1"),
        ("s{?q}", "s?q=1&q=2"),
        ("s{?q}", "s?q=1#x"),
        ("s{?q}{#at}", "s?q=1"),
        ("s?fixed=1{&a}", "s?fixed=1&unknown=2"),
        ("s?fixed=1{&a}", "s?fixed=1&unknown=2&a=3"),
        ("s?fixed=1{&a}", "s?fixed=1&a=2&unknown=3"),
        ("s?fixed=1{&a}", "s?fixed=1&a=2&a=3"),
        ("s?fixed=1{&a}", "s?a=2&fixed=1"),
    ],
)
def test_a_repeated_parameter_or_one_that_no_question_mark_expression_excuses_does_not_match(
    template: str, uri: str
) -> None:
    assert UriTemplate(template).match(uri) is None


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("x/{a}", "x/BAD"),
        ("x/{+a}", "x/BAD"),
        ("x/{a}.{b}", "x/BAD.b"),
        ("x/{b}{?a}", "x/b?a=BAD"),
    ],
)
@pytest.mark.parametrize("bad", ["%", "%4", "%zz", "%ff", "%C3", "%C3%28", "%C0%AF", "%ED%A0%80", "\ud800"])
def test_a_value_that_is_not_percent_encoded_utf_8_does_not_match(template: str, uri: str, bad: str) -> None:
    assert UriTemplate(template).match(uri.replace("BAD", "%C3%A9")) is not None
    assert UriTemplate(template).match(uri.replace("BAD", bad)) is None


@pytest.mark.parametrize(
    ("template", "expression", "remedy"),
    [
        ("x{a", "'x{a'", "pair it"),
        ("xa}", "'xa}'", "pair it"),
        ("{a{b}}", "'{a'", "pair it"),
        ("{{a}}", "'{'", "pair it"),
        ("x{}", "'{}'", "write a name"),
        ("x{+}", "'{+}'", "write a name"),
        ("x{a*}", "'{a*}'", "remove the *"),
        ("x{?a:3}", "'{?a:3}'", "remove the *"),
        ("x{=a}", "'{=a}'", "use one of"),
        ("x{,a}", "'{,a}'", "use one of"),
        ("x{!a}", "'{!a}'", "use one of"),
        ("x{@a}", "'{@a}'", "use one of"),
        ("x{|a}", "'{|a}'", "use one of"),
        ("x{a,}", "'{a,}'", "use ASCII letters"),
        ("x{a b}", "'{a b}'", "use ASCII letters"),
        ("x{a-b}", "'{a-b}'", "use ASCII letters"),
        ("x{a..b}", "'{a..b}'", "use ASCII letters"),
        ("x{a.}", "'{a.}'", "use ASCII letters"),
        ("x{%2}", "'{%2}'", "use ASCII letters"),
        ("x{\u00e9}", "'{\u00e9}'", "use ASCII letters"),
        ("x{a\n}", "'{a\\n}'", "use ASCII letters"),
        ("{a}/{b,a}", "'{b,a}'", "rename one"),
        ("{/a,a}", "'{/a,a}'", "rename one"),
        ("x?y=1{?a}", "'{?a}'", "use {&...}"),
        ("x{?a}{?b}", "'{?b}'", "use {&...}"),
        ("x{&a}{?b}", "'{?b}'", "use {&...}"),
        ("x#y{?a}", "'{?a}'", "before the #"),
        ("x{?a}{#b}{&c}", "'{&c}'", "before the #"),
        ("x{?a}&y=1", "'&y=1'", "fixed parameters before"),
        ("x{?a}{b}", "'{b}'", "fixed parameters before"),
    ],
)
def test_a_bad_template_is_refused_with_the_expression_and_the_remedy(
    template: str, expression: str, remedy: str
) -> None:
    with pytest.raises(DefinitionError) as refusal:
        UriTemplate(template)
    assert str(refusal.value).startswith(f"URI template {template!r}: {expression} ")
    assert remedy in str(refusal.value)


@pytest.mark.parametrize(
    "template",
    [
        "{a}/{b}/{c}/{d}",
        "{a}-{b}-{c}-{d}",
        "{a}{b}{c}",
        "{+a}/{b}/{+c}/{d}",
        "{+a}-{+b}-{+c}/x",
        "{name}{.a,b,c}",
        "{x}{;a,b,c}",
        "{a,b,c}",
        "x{?a,b}",
        "x{&a,b}",
    ],
)
@pytest.mark.parametrize("pattern", ["-", "/", "a-", "a/", ".", ";a=", ",", "x?", "a=1&", "&a=1", "%", "%41", "#"])
def test_a_hostile_uri_is_answered_quickly(template: str, pattern: str) -> None:
    uri = pattern * (100_000 // len(pattern))
    compiled = UriTemplate(template)
    start = time.thread_time()
    compiled.match(uri)
    compiled.match(uri + "/?#")
    assert time.thread_time() - start < 5


def test_the_variables_of_a_query_are_not_required():
    assert UriTemplate("log://{year}/{+path}{?level,page}").required == ("year", "path")
    assert UriTemplate("log://today").required == ()
