"""Extensions on the client's side: the contract that an author fulfils, and what one client has of them."""
