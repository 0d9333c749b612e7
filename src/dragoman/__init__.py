"""Servers, clients and chats for the Model Context Protocol."""

__version__ = "0.1.0.dev0"
