"""`RouteTable`: which route serves which path, and what is refused at registration."""

import pytest

from dragoman import Server
from dragoman.errors import DefinitionError
from dragoman.server.routes.table import RouteTable


def one(request):
    return request.path


async def application(scope, receive, send): ...


def table(*paths: str, methods: object = ("GET",)) -> RouteTable:
    made = RouteTable()
    for path in paths:
        made.add(path, methods, one, needs_auth=False)
    return made


@pytest.mark.parametrize(
    ("path", "route", "params"),
    [
        ("/orders", "/orders", {}),
        ("/orders/", "/orders", {}),
        ("/orders/7", "/orders/{id}", {"id": "7"}),
        ("/orders/7/", "/orders/{id}", {"id": "7"}),
        ("/orders/new", "/orders/new", {}),
        ("/orders/7/lines/a b", "/orders/{id}/lines/{line}", {"id": "7", "line": "a b"}),
        ("/report.2026.csv", "/report.{year}.csv", {"year": "2026"}),
        ("/", "/", {}),
    ],
)
def test_a_path_finds_its_route_and_a_path_without_parameters_comes_first(path, route, params):
    paths = ("/orders/{id}", "/orders", "/orders/new", "/orders/{id}/lines/{line}", "/report.{year}.csv", "/")
    assert table(*paths).find(path)[0] == (table(route).find(path)[0][0], params)


@pytest.mark.parametrize("path", ["/order", "/orders/7/8", "/orders//", "/ordersx", "/reportx2026xcsv", ""])
def test_other_paths_find_nothing(path):
    assert table("/orders", "/orders/{id}", "/report.{year}.csv").find(path) == []


def test_one_path_may_have_a_function_for_each_method():
    made = table("/orders", methods="get")
    made.add("/orders", ["POST", "put"], one, needs_auth=False)
    assert [sorted(route.methods) for route, _ in made.find("/orders")] == [["GET", "HEAD"], ["POST", "PUT"]]


@pytest.mark.parametrize(
    "path", ["orders", "/a?b", "/a#b", "/{}", "/{a b}", "/{rest:path}", "/{a}/{a}", "/{a", "/a}", 3]
)
def test_a_path_that_cannot_be_served_is_refused(path):
    with pytest.raises(DefinitionError, match="path"):
        table(path)


@pytest.mark.parametrize("methods", [[], "", ["GE T"], [3]])
def test_methods_must_be_methods(methods):
    with pytest.raises(DefinitionError, match="method"):
        table("/a", methods=methods)


@pytest.mark.parametrize("function", [3, lambda a, b: None, lambda *, request: None])
def test_a_function_takes_the_request_or_nothing(function):
    with pytest.raises(DefinitionError, match="/a"):
        RouteTable().add("/a", "GET", function, needs_auth=False)


@pytest.mark.parametrize(("function", "takes"), [(one, True), (lambda: 1, False), (lambda *given: given, False)])
def test_a_function_is_given_the_request_if_it_has_a_parameter(function, takes):
    made = RouteTable()
    made.add("/a", "GET", function, needs_auth=False)
    assert made.find("/a")[0][0].takes_request is takes


def test_a_route_is_registered_once():
    with pytest.raises(DefinitionError, match=r"GET, HEAD /orders/\{number\} already"):
        table("/orders/{id}", "/orders/{number}")


def test_the_longest_prefix_finds_the_application():
    made = RouteTable()
    for path in ("/", "/admin", "/admin/users/"):
        made.mount(path, application)
    found = {path: made.find_mounted(path) for path in ("/x", "/admin", "/admin/x", "/administrator", "/admin/users/1")}
    prefixes = {path: match and match[0] for path, match in found.items()}
    assert prefixes == {
        "/x": "",
        "/admin": "/admin",
        "/admin/x": "/admin",
        "/administrator": "",
        "/admin/users/1": "/admin/users",
    }
    assert RouteTable().find_mounted("/x") is None


@pytest.mark.parametrize(
    ("path", "app"), [("admin", application), ("/{id}", application), ("/taken", application), ("/a", 3)]
)
def test_an_application_that_cannot_be_mounted_is_refused(path, app):
    made = RouteTable()
    made.mount("/taken", application)
    with pytest.raises(DefinitionError):
        made.mount(path, app)


def test_a_route_at_the_path_of_mcp_or_without_its_auth_ends_the_start():
    server = Server("a")
    server.route("/mcp/")(one)
    with pytest.raises(DefinitionError, match="path of MCP"):
        server.asgi()
    guarded = Server("b")
    guarded.route("/secret", auth=True)(one)
    with pytest.raises(DefinitionError, match="auth=True"):
        guarded.asgi()
    assert guarded.asgi(auth=lambda request: "alice").served.beside is not None
