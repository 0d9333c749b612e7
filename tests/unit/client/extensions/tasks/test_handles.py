"""What the objects of tasks say of themselves."""

from dragoman import AsyncClient, Client, Server


def test_the_tasks_of_a_server_name_their_client():
    assert repr(Client(Server("s"), tasks=True).tasks) == "<ServerTasks of <Client: new>>"
    assert repr(AsyncClient(Server("s"), tasks=True).tasks) == "<AsyncServerTasks of <AsyncClient: new>>"
